// tessera run: one question, one answer.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/str_cat.h"
#include "commands.h"
#include "interrupt.h"
#include "io/json.h"
#include "output.h"
#include "request_options.h"
#include "runtime/engine.h"

namespace tessera {
namespace {

using io::Json;

struct Arguments {
  ModelArguments model;
  RequestArguments request;
};

// Reasoning and answer of a complete text.
struct Parts {
  std::string reasoning;
  std::string content;
};

Parts split_reasoning(const Result& result) {
  constexpr std::string_view kEnd = "</think>";
  if (!result.is_thinking) {
    return {"", result.text};
  }
  const size_t at = result.text.find(kEnd);
  if (at == std::string::npos) {
    return {result.text, ""};
  }
  return {result.text.substr(0, at), result.text.substr(at + kEnd.size())};
}

template <typename T>
Json numbers(const std::vector<T>& values) {
  std::vector<Json> items;
  for (const T value : values) {
    items.push_back(Json::number(static_cast<int64_t>(value)));
  }
  return Json::array(std::move(items));
}

std::string to_json(const Engine& engine, const Result& result) {
  const Parts parts = split_reasoning(result);
  Json timings = Json::object();
  timings.set("load_ms", Json::number(engine.load_ms()));
  timings.set("image_ms", Json::number(result.image_ms));
  timings.set("prefill_ms", Json::number(result.prefill_ms));
  timings.set("decode_ms", Json::number(result.decode_ms));
  Json json = Json::object();
  json.set("model", Json::string(engine.model_folder()));
  json.set("content", Json::string(parts.content));
  json.set("reasoning", Json::string(parts.reasoning));
  json.set("tool_calls", Json::array());
  json.set("finish_reason", Json::string(std::string(finish_reason_name(result.finish_reason))));
  json.set("ids", numbers(result.ids));
  json.set("prompt_tokens", Json::number(result.prompt_tokens));
  json.set("image_tokens", Json::number(result.image_tokens));
  json.set("span_tokens", numbers(result.span_tokens));
  json.set("cached_tokens", Json::number(int64_t{0}));
  json.set("completion_tokens", Json::number(static_cast<int64_t>(result.ids.size())));
  json.set("seed", Json::number_spelled(str_cat(result.seed)));
  json.set("timings", std::move(timings));
  return io::dump_compact(json) + "\n";
}

int run(const Arguments& a) {
  Request request = make_request(a.request);
  const EngineOptions options = engine_options(a.model);
  Output out;
  ProgressBar bar(a.model.is_quiet);
  Events events;
  events.on_progress = [&](std::string_view stage, int64_t done, int64_t total) {
    bar.update(stage, done, total);
  };
  if (!a.model.is_json) {
    events.on_text = [&](std::string_view text) {
      bar.clear();
      out.write_foreign(text);
      if (out.is_closed()) {  // nobody reads any more
        interrupt_flag().store(true);
      }
    };
  }
  request.cancel = &interrupt_flag();
  const std::unique_ptr<Engine> engine = Engine::open(options, events);
  const Result result = engine->generate(request, events);
  bar.clear();
  if (a.model.is_json) {
    out.write(to_json(*engine, result));
  } else {
    out.write("\n");
    const double temperature = request.temperature.value_or(engine->defaults().temperature);
    if (temperature > 0 && !a.request.seed.has_value() && !a.model.is_quiet) {
      std::cerr << str_cat("seed ", result.seed, "\n");
    }
  }
  if (out.is_closed()) {
    return 0;
  }
  return result.finish_reason == FinishReason::cancelled ? kInterrupted : 0;
}

}  // namespace

void add_run_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("run", "answer one question, about pictures or without");
  const auto arguments = std::make_shared<Arguments>();
  add_model_options(*command, arguments->model);
  add_request_options(*command, arguments->request);
  command->footer(
      "Examples:\n"
      "  tessera run --image photo.png \"What does the image show?\"\n"
      "  tessera run --model DIR --think high --max-tokens 200 \"Why is the sky blue?\"\n"
      "  tessera run --input cases.json --case 2 --json");
  command->callback([arguments, &status] { status = run(*arguments); });
}

}  // namespace tessera
