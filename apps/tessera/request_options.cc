#include "request_options.h"

#include <CLI/CLI.hpp>
#include <random>

#include "base/error.h"
#include "base/log.h"
#include "base/str_cat.h"
#include "number_option.h"
#include "size_option.h"

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

// "ID:BIAS"
std::pair<int32_t, double> parse_bias(const std::string& text) {
  const size_t at = text.find(':');
  std::pair<int32_t, double> bias;
  if (at == std::string::npos || !parse_number(text.substr(0, at), bias.first) ||
      !parse_number(text.substr(at + 1), bias.second)) {
    bad_option(str_cat("--logit-bias ", text, ": expected ID:BIAS, a token id and a number"));
  }
  return bias;
}

}  // namespace

void add_model_options(CLI::App& command, ModelArguments& a) {
  command
      .add_option(
          "--model", a.model,
          "checkpoint folder, or org/name in the local Hugging Face cache (default: demo model)")
      ->type_name("DIR|ORG/NAME");
  add_number_option(command, "--threads", a.threads,
                    "threads (default: what this process may use)");
  add_number_option(command, "--context", a.context, "most tokens of a sequence");
  add_size_option(command, "--resident-limit", a.resident_limit_bytes,
                  "most memory of this process, 64G or 512M; weights leave it to stay below");
  command.add_flag("--lock", a.locks_hot_weights,
                   "keep the weights that every step reads in memory (mlock)");
  command.add_option("--log-level", a.log_level, "error, warning, info or debug")
      ->type_name("error|warning|info|debug");
  command.add_flag("--quiet", a.is_quiet, "no progress on the terminal");
  command.add_flag("--json", a.is_json, "print one JSON value");
  command
      .add_option("--reference", a.reference,
                  "parity with the reference: index-slot, image-token (docs/numerics.md)")
      ->type_name("index-slot|image-token")
      ->allow_extra_args(false)
      ->delimiter(',');
  command
      .add_option("--nvfp4-activations", a.nvfp4_activations,
                  "inputs of NVFP4 experts: calibrated (the checkpoint's scales) or e4m3")
      ->type_name("calibrated|e4m3");
  command.add_option("--index-scores", a.index_scores, "bf16 (as the reference) or fp32")
      ->type_name("bf16|fp32");
  command
      .add_option("--encoding", a.encoding,
                  "rules of the chat encoder: ref, ref-1017, or recipe (docs/prompts.md)")
      ->type_name("ref|ref-1017|recipe");
  add_picture_options(command, a.pictures);
}

EngineOptions engine_options(const ModelArguments& a) {
  set_level(a.log_level);
  EngineOptions o;
  o.model = resolve_model(a.model);
  o.threads = a.threads;
  o.context = a.context;
  o.resident_limit_bytes = a.resident_limit_bytes;
  o.locks_hot_weights = a.locks_hot_weights;
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
  if (a.nvfp4_activations != "calibrated" && a.nvfp4_activations != "e4m3") {
    bad_option(
        str_cat("--nvfp4-activations ", a.nvfp4_activations, ": expected calibrated or e4m3"));
  }
  o.nvfp4_e4m3_activations = a.nvfp4_activations == "e4m3";
  if (a.encoding != "ref" && a.encoding != "ref-1017" && a.encoding != "recipe") {
    bad_option(str_cat("--encoding ", a.encoding, ": expected ref, ref-1017 or recipe"));
  }
  o.encoding = a.encoding == "ref"        ? EncodingRevision::ref
               : a.encoding == "ref-1017" ? EncodingRevision::ref_1017
                                          : EncodingRevision::recipe;
  o.picture_policy = policy_of(a.pictures.policy);
  o.pictures = access_of(a.pictures);
  return o;
}

Message text_message(Role role, const std::string& text, const std::vector<std::string>& images) {
  Message message;
  message.role = role;
  for (const std::string& image : images) {
    ContentBlock& block = message.content.emplace_back();
    block.kind = ContentBlock::Kind::image;
    block.image.value = image;
  }
  if (!text.empty() || images.empty()) {
    message.content.emplace_back().text = text;
  }
  return message;
}

void add_answer_options(CLI::App& command, RequestArguments& a) {
  command.add_option("--think", a.think, "off, low, high, max or 1..100 (default: the model's)")
      ->type_name("off|low|high|max|1..100");
  add_number_option(command, "--max-tokens", a.max_tokens, "most tokens of the answer");
  add_number_option(command, "--min-tokens", a.min_tokens,
                    "the end token is not chosen before this many");
  add_number_option(command, "--temperature", a.temperature, "0: always the most likely token");
  add_number_option(command, "--top-k", a.top_k, "sample from the K most likely tokens; 0: all");
  add_number_option(command, "--top-p", a.top_p,
                    "sample from the smallest set of tokens with this mass");
  add_number_option(command, "--min-p", a.min_p,
                    "sample from tokens at least this share as likely as the likeliest");
  add_number_option(command, "--repetition-penalty", a.repetition_penalty,
                    "divides logits of tokens in prompt and answer; 1: none");
  add_number_option(command, "--presence-penalty", a.presence_penalty,
                    "subtracted from logits of tokens in the answer");
  add_number_option(command, "--frequency-penalty", a.frequency_penalty,
                    "the same, for each time the token stands there");
  command.add_option("--logit-bias", a.logit_bias, "ID:BIAS, added to the logit of a token")
      ->type_name("ID:BIAS")
      ->allow_extra_args(false)
      ->delimiter(',');
  add_number_option(command, "--seed", a.seed, "seed of the sampler (default: drawn and reported)");
  command.add_option("--stop", a.stop, "text that ends the answer; may be repeated")
      ->allow_extra_args(false);
  add_number_option(command, "--logprobs", a.logprobs,
                    "log-probability of every token, with the N likeliest (0 to 20)");
  command.add_flag("--ignore-eos", a.ignores_eos, "go on after the end token");
}

void add_request_options(CLI::App& command, RequestArguments& a) {
  command
      .add_option(
          "--image", a.images,
          "picture: a file (JPEG, PNG, WebP, GIF, BMP, TIFF, PNM), http(s) or data URL; may "
          "be repeated, order is kept")
      ->type_name("FILE|URL")
      ->allow_extra_args(false);
  command.add_option("--detail", a.detail, "of all pictures: low, high, auto or original")
      ->type_name("low|high|auto|original");
  command.add_option("--system", a.system, "system message");
  add_answer_options(command, a);
  command.add_option("--tools", a.tools, "file with a JSON list of tools that the model may call")
      ->type_name("FILE");
  command
      .add_option("--response-format", a.response_format,
                  "file with the JSON schema that the model is told to follow")
      ->type_name("FILE");
  add_number_option(command, "--n", a.choices, "number of answers");
  command
      .add_option("--input", a.input,
                  "FILE.json: messages or cases; other files: text with <image>path</image> tags")
      ->type_name("FILE");
  command.add_option("--case", a.input_case, "case of the input file, by name or number");
  command.add_option("PROMPT", a.prompt, "what to ask");
}

void set_answer_options(const RequestArguments& a, Request& request) {
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
  if (!a.tools.empty()) {
    attach_tools_file(a.tools, request);
  }
  if (!a.response_format.empty()) {
    attach_response_format_file(a.response_format, request);
  }
  SamplingRequest& s = request.sampling;
  s.temperature = a.temperature;
  s.top_k = a.top_k;
  s.top_p = a.top_p;
  s.min_p = a.min_p;
  s.repetition_penalty = a.repetition_penalty;
  s.presence_penalty = a.presence_penalty.value_or(0);
  s.frequency_penalty = a.frequency_penalty.value_or(0);
  for (const std::string& bias : a.logit_bias) {
    s.logit_bias.push_back(parse_bias(bias));
  }
  request.max_tokens = a.max_tokens;
  request.min_tokens = a.min_tokens.value_or(0);
  request.ignores_eos = a.ignores_eos;
  request.stop = a.stop;
  request.logprobs = a.logprobs;
  request.choices = a.choices.value_or(1);
  if (a.seed.has_value()) {
    s.seed = *a.seed;
  } else {
    std::random_device device;
    s.seed = device();
  }
  check_options(request, OptionNames::command_line);
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
      request.messages.push_back(text_message(Role::system, a.system));
    }
    check_detail(a.detail);
    request.messages.push_back(text_message(Role::user, a.prompt, a.images));
    for (ContentBlock& block : request.messages.back().content) {
      block.image.detail = a.detail;
    }
  }
  set_answer_options(a, request);
  return request;
}

}  // namespace tessera
