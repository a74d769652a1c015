#include "request_options.h"

#include <CLI/CLI.hpp>
#include <random>

#include "base/error.h"
#include "base/log.h"
#include "base/str_cat.h"
#include "number_option.h"

namespace tessera {
namespace {

[[noreturn]] void bad_option(const std::string& message) {
  throw Error(ErrorCode::bad_request, message);
}

void set_level(const std::string& name) {
  if (name == "error") {
    set_log_level(LogLevel::error);
  } else if (name == "warning") {
    set_log_level(LogLevel::warning);
  } else if (name == "info") {
    set_log_level(LogLevel::info);
  } else if (name == "debug") {
    set_log_level(LogLevel::debug);
  } else {
    bad_option(str_cat("--log-level ", name, ": expected error, warning, info or debug"));
  }
}

// The case that --case NAME or --case N (from 0) names.
InputCase pick_case(std::vector<InputCase> cases, const std::string& file,
                    const std::string& which) {
  if (which.empty()) {
    if (cases.size() != 1) {
      bad_option(
          str_cat(file, " has ", cases.size(), " cases; name one with --case NAME or --case N"));
    }
    return std::move(cases.front());
  }
  for (InputCase& candidate : cases) {
    if (candidate.name == which) {
      return std::move(candidate);
    }
  }
  size_t index = 0;
  if (!parse_number(which, index) || index >= cases.size()) {
    bad_option(str_cat("--case ", which, ": ", file, " has no case of this name and ", cases.size(),
                       " cases, numbered from 0"));
  }
  return std::move(cases[index]);
}

Message user_message(const RequestArguments& a) {
  Message message;
  for (const std::string& image : a.images) {
    ContentBlock block;
    block.kind = ContentBlock::Kind::image;
    block.image.value = image;
    message.content.push_back(std::move(block));
  }
  ContentBlock text;
  text.text = a.prompt;
  if (!a.prompt.empty() || a.images.empty()) {
    message.content.push_back(std::move(text));
  }
  return message;
}

}  // namespace

void add_model_options(CLI::App& command, ModelArguments& a) {
  command.add_option(
      "--model", a.model,
      "checkpoint folder, or org/name in the local Hugging Face cache (default: demo model)");
  add_number_option(command, "--threads", a.threads,
                    "threads (default: what this process may use)");
  add_number_option(command, "--context", a.context, "most tokens of a sequence");
  command.add_option("--log-level", a.log_level, "error, warning, info or debug");
  command.add_flag("--quiet", a.is_quiet, "no progress on the terminal");
  command.add_flag("--json", a.is_json, "print one JSON value");
  command
      .add_option("--reference", a.reference,
                  "parity with the reference: index-slot, image-token (docs/numerics.md)")
      ->allow_extra_args(false)
      ->delimiter(',');
  command.add_option("--index-scores", a.index_scores, "bf16 (as the reference) or fp32");
  command.add_option("--encoding", a.encoding, "revision of the chat encoder: ref or ref-1017");
  add_number_option(command, "--pillow", a.pillow,
                    "order of the resampling passes: as Pillow 13 (default) or 12");
}

EngineOptions engine_options(const ModelArguments& a) {
  set_level(a.log_level);
  EngineOptions o;
  o.model = resolve_model(a.model);
  o.threads = a.threads;
  o.context = a.context;
  for (const std::string& name : a.reference) {
    if (name == "index-slot") {
      o.reference_index_slot = true;
    } else if (name == "image-token") {
      o.samples_image_token = true;
    } else {
      bad_option(str_cat("--reference ", name, ": expected index-slot or image-token"));
    }
  }
  if (a.index_scores != "bf16" && a.index_scores != "fp32") {
    bad_option(str_cat("--index-scores ", a.index_scores, ": expected bf16 or fp32"));
  }
  o.fp32_index_scores = a.index_scores == "fp32";
  if (a.encoding != "ref" && a.encoding != "ref-1017") {
    bad_option(str_cat("--encoding ", a.encoding, ": expected ref or ref-1017"));
  }
  o.encoding = a.encoding == "ref" ? EncodingRevision::ref : EncodingRevision::ref_1017;
  if (a.pillow != 12 && a.pillow != 13) {
    bad_option(str_cat("--pillow ", a.pillow, ": expected 12 or 13"));
  }
  o.pass_order = a.pillow == 12 ? image::PassOrder::pillow12 : image::PassOrder::pillow13;
  return o;
}

void add_request_options(CLI::App& command, RequestArguments& a) {
  command
      .add_option("--image", a.images, "picture file (PNG, JPEG); may be repeated, order is kept")
      ->allow_extra_args(false);
  command.add_option("--system", a.system, "system message");
  command.add_option("--think", a.think, "off, low, high, max or 1..100 (default: the model's)");
  add_number_option(command, "--max-tokens", a.max_tokens, "most tokens of the answer");
  add_number_option(command, "--temperature", a.temperature, "0: always the most likely token");
  add_number_option(command, "--top-p", a.top_p,
                    "sample from the smallest set of tokens with this mass");
  add_number_option(command, "--seed", a.seed, "seed of the sampler (default: drawn and reported)");
  command.add_flag("--ignore-eos", a.ignores_eos, "go on after the end token");
  command.add_option(
      "--input", a.input,
      "FILE.json: messages or cases; other files: text with <image>path</image> tags");
  command.add_option("--case", a.input_case, "case of the input file, by name or number");
  command.add_option("PROMPT", a.prompt, "what to ask");
}

Request make_request(const RequestArguments& a) {
  Request request;
  if (!a.input.empty()) {
    if (!a.prompt.empty() || !a.images.empty() || !a.system.empty()) {
      bad_option("--input holds the whole conversation; leave out PROMPT, --image and --system");
    }
    request = pick_case(read_input_file(a.input), a.input, a.input_case).request;
  } else {
    if (a.prompt.empty() && a.images.empty()) {
      bad_option("nothing to do: give a PROMPT, --image FILE or --input FILE (see --help)");
    }
    if (!a.system.empty()) {
      Message system;
      system.role = Role::system;
      system.content.emplace_back();
      system.content.back().text = a.system;
      request.messages.push_back(std::move(system));
    }
    request.messages.push_back(user_message(a));
  }
  if (a.think == "off") {
    request.is_thinking = false;
  } else if (!a.think.empty()) {
    const std::optional<int> effort = parse_effort_level(a.think);
    if (!effort.has_value()) {
      bad_option(
          str_cat("--think ", a.think, ": expected off, low, high, max or a number from 1 to 100"));
    }
    request.is_thinking = true;
    request.effort = *effort;
  }
  const auto in_range = [](const char* name, std::optional<double> value, double low, double high) {
    if (value.has_value() && !(*value >= low && *value <= high)) {
      bad_option(str_cat(name, " ", *value, ": expected ", low, " to ", high));
    }
  };
  in_range("--temperature", a.temperature, 0, 100);
  in_range("--top-p", a.top_p, 0, 1);
  if (a.max_tokens.has_value() && *a.max_tokens < 1) {
    bad_option(str_cat("--max-tokens ", *a.max_tokens, ": expected at least 1"));
  }
  request.max_tokens = a.max_tokens;
  request.temperature = a.temperature;
  request.top_p = a.top_p;
  request.ignores_eos = a.ignores_eos;
  if (a.seed.has_value()) {
    request.seed = *a.seed;
  } else {
    std::random_device device;
    request.seed = device();
  }
  return request;
}

}  // namespace tessera
