// tessera run: one question, one answer.
#include <CLI/CLI.hpp>
#include <memory>

#include "answer_printer.h"
#include "base/log.h"
#include "base/str_cat.h"
#include "commands.h"
#include "interrupt.h"
#include "io/json.h"
#include "output.h"
#include "request_options.h"
#include "result_json.h"
#include "runtime/engine.h"

namespace tessera {
namespace {

struct Arguments {
  ModelArguments model;
  RequestArguments request;
};

// Log-probabilities for people: one line per token.
void print_logprobs(const Engine& engine, const Choice& choice, Output& out) {
  const auto shown = [&](const TokenLogprob& token) {
    return str_cat(io::dump_compact(io::Json::string(engine.decode({token.id}))), " ",
                   token.logprob);
  };
  for (const ChosenToken& chosen : choice.logprobs) {
    std::string line = str_cat(chosen.token.id, " ", shown(chosen.token));
    for (const TokenLogprob& other : chosen.top) {
      line += str_cat(" | ", shown(other));
    }
    out.write_foreign(line);
    out.write("\n");
  }
}

int run(const Arguments& a) {
  Request request = make_request(a.request);
  const EngineOptions options = engine_options(a.model);
  Output out;
  AnswerPrinter printer(out);
  ProgressBar bar(a.model.is_quiet);
  Events events;
  events.on_notice = [&](std::string_view line) {
    bar.clear();
    log_line(LogLevel::warning, line);
  };
  events.on_progress = [&](std::string_view stage, int64_t done, int64_t total) {
    bar.update(stage, done, total);
  };
  int64_t printed = 0;  // choice that is being printed
  if (!a.model.is_json) {
    events.on_delta = [&](int64_t choice, const AnswerDelta& delta) {
      bar.clear();
      if (choice != printed) {
        printer.finish();
        out.write(str_cat("\n-- answer ", choice + 1, "\n"));
        printed = choice;
      }
      printer.print(delta);
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
    out.write(io::dump_compact(result_json(*engine, request, result)) + "\n");
  } else {
    printer.finish();
    for (const Choice& choice : result.choices) {
      print_logprobs(*engine, choice, out);
    }
    const double temperature =
        request.sampling.temperature.value_or(engine->defaults().temperature);
    if (temperature > 0 && !a.request.seed.has_value() && !a.model.is_quiet) {
      std::cerr << str_cat("seed ", result.seed, "\n");
    }
  }
  if (out.is_closed()) {
    return 0;
  }
  return result.is_cancelled ? kInterrupted : 0;
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
      "  tessera run --temperature 0.7 --top-p 0.9 --seed 1 --n 3 \"Name a vegetable.\"\n"
      "  tessera run --tools tools.json --think off --json \"Weather in Oslo?\"\n"
      "  tessera run --input cases.json --case 2 --json");
  command->callback([arguments, &status] { status = run(*arguments); });
}

}  // namespace tessera
