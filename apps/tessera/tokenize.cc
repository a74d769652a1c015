// tessera tokenize: text to tokens, a conversation to its prompt, an answer to its parts.
#include <CLI/CLI.hpp>
#include <iostream>
#include <iterator>
#include <memory>

#include "answer_printer.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/str_cat.h"
#include "commands.h"
#include "io/json.h"
#include "models/deepseek_v41/completion.h"
#include "models/deepseek_v41/prompt_writer.h"
#include "output.h"
#include "request_options.h"
#include "result_json.h"
#include "runtime/engine.h"
#include "tokenizer/tokenizer.h"

namespace tessera {
namespace {

using deepseek_v41::CompletionOptions;
using io::Json;

struct Arguments {
  ModelArguments model;
  std::string tokenizer;  // file
  bool is_plain = false;
  std::string chat;  // file
  bool expands = false;
  std::string parse;  // file
  std::string think = "off";
  bool is_json_output = false;
  bool is_in_tool_calls = false;
  bool is_strict = false;
  std::vector<std::string> stop;
  std::optional<std::string> text;
};

std::string read_input(const std::string& file) {
  if (file == "-") {
    return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  }
  const MappedFile mapped(file);
  return {reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size()};
}

void tokenize_text(const Arguments& a, Output& out) {
  const std::string file =
      a.tokenizer.empty() ? resolve_model(a.model.model) + "/tokenizer.json" : a.tokenizer;
  const Tokenizer tokenizer = Tokenizer::load(file);
  const std::string text = *a.text == "-" ? read_input("-") : *a.text;
  const std::vector<int32_t> ids =
      tokenizer.encode(text, a.is_plain ? AddedTokens::plain : AddedTokens::recognise);
  if (!a.model.is_json) {
    for (const int32_t id : ids) {
      const std::string piece = tokenizer.decode(std::span(&id, 1));
      out.write_foreign(str_cat(id, "\t", io::dump_compact(Json::string(piece)), "\n"));
    }
    return;
  }
  Json pieces = Json::array();
  for (const int32_t id : ids) {
    pieces.items().push_back(Json::string(tokenizer.decode(std::span(&id, 1))));
  }
  Json json = Json::object();
  json.set("ids", json_numbers(ids));
  json.set("pieces", std::move(pieces));
  out.write(io::dump_compact(json) + "\n");
}

Json image_json(const ImageSource& image) {
  Json json = Json::object();
  if (image.kind == ImageSource::Kind::url) {
    json.set("url", Json::string(image.value));
  } else if (image.media_type.empty()) {
    json.set("data", Json::string(image.value));
  } else {
    Json source = Json::object();
    source.set("type", Json::string("base64"));
    source.set("media_type", Json::string(image.media_type));
    source.set("data", Json::string(image.value));
    json.set("source", std::move(source));
  }
  if (!image.detail.empty()) {
    json.set("detail", Json::string(image.detail));
  }
  return json;
}

Json prompt_json(const EncodedPrompt& prompt, bool is_expanded) {
  Json json = Json::object();
  json.set("prompt", Json::string(prompt.text));
  json.set("prompt_ids", json_numbers(prompt.ids));
  Json ranges = Json::array();
  for (const auto& [begin, end] : prompt.special_ranges) {
    ranges.items().push_back(Json::array({Json::number(begin), Json::number(end)}));
  }
  json.set("special_ranges", std::move(ranges));
  Json images = Json::array();
  for (const ImageSource& image : prompt.images) {
    images.items().push_back(image_json(image));
  }
  json.set("images", std::move(images));
  if (is_expanded) {
    Json spans = Json::array();
    for (const EncodedPrompt::Span& span : prompt.spans) {
      Json entry = Json::object();
      entry.set("start", Json::number(span.start));
      entry.set("length", Json::number(span.length));
      entry.set("tokens", Json::array({Json::number(span.rows), Json::number(span.columns)}));
      spans.items().push_back(std::move(entry));
    }
    json.set("ids", json_numbers(prompt.expanded_ids));
    json.set("types", json_numbers(prompt.types));
    json.set("spans", std::move(spans));
  }
  return json;
}

void tokenize_chat(const Arguments& a, Output& out) {
  const Request request = read_chat_request(a.chat);
  EncodedPrompt prompt;
  if (a.tokenizer.empty() || a.expands) {
    const std::unique_ptr<Engine> engine = Engine::open(engine_options(a.model));
    prompt = engine->encode(request, a.expands ? ImageSpans::expand : ImageSpans::leave_out);
  } else {
    prompt = encode_with_tokenizer(a.tokenizer, request, engine_options(a.model).encoding);
  }
  if (a.model.is_json) {
    out.write(io::dump_compact(prompt_json(prompt, a.expands)) + "\n");
    return;
  }
  out.write_foreign(prompt.text);
  out.write(str_cat("\n-- ", prompt.ids.size(), " tokens, ", prompt.images.size(), " pictures\n"));
  for (const EncodedPrompt::Span& span : prompt.spans) {
    out.write(str_cat("picture at ", span.start, ": ", span.length, " positions, ", span.rows,
                      " x ", span.columns, " tokens\n"));
  }
}

CompletionOptions completion_options(const Arguments& a) {
  if (a.think != "on" && a.think != "off") {
    throw Error(ErrorCode::bad_request, str_cat("--think ", a.think, ": expected on or off"));
  }
  CompletionOptions options;
  options.is_json = a.is_json_output;
  options.stop = a.stop;
  options.start = a.is_in_tool_calls ? CompletionOptions::Start::calls
                  : a.think == "on"  ? CompletionOptions::Start::reasoning
                                     : CompletionOptions::Start::answer;
  if (a.is_in_tool_calls && a.think == "on") {
    throw Error(
        ErrorCode::bad_request,
        "--in-tool-calls and --think on exclude each other: forced calls have no reasoning");
  }
  for (const std::string& stop : a.stop) {
    if (stop.empty()) {
      throw Error(ErrorCode::bad_request, "--stop '': expected a text that is not empty");
    }
  }
  return options;
}

void parse_answer(const Arguments& a, Output& out) {
  std::string text = read_input(a.parse);
  const CompletionOptions options = completion_options(a);
  Answer answer;
  std::vector<AnswerDelta> deltas;
  if (a.is_strict) {
    answer = deepseek_v41::parse_completion(text, a.think == "on");
  } else {
    deepseek_v41::CompletionParser parser(options);
    const size_t end = std::min(text.find(deepseek_v41::kEos), text.size());
    parser.push(replace_invalid_utf8(std::string_view(text).substr(0, end)), deltas);
    parser.finish(deltas);
    for (const AnswerDelta& delta : deltas) {
      append(delta, answer);
    }
  }
  if (a.model.is_json) {
    Json json = Json::object();
    json.set("content", Json::string(answer.content));
    json.set("reasoning", Json::string(answer.reasoning));
    json.set("tool_calls", calls_json(answer.tool_calls));
    json.set("finish_reason", Json::string(answer.tool_calls.empty() ? "stop" : "tool_calls"));
    out.write(io::dump_compact(json) + "\n");
    return;
  }
  AnswerPrinter printer(out);
  printer.print(answer);
}

void run(const Arguments& a) {
  const int forms =
      (a.text.has_value() ? 1 : 0) + (a.chat.empty() ? 0 : 1) + (a.parse.empty() ? 0 : 1);
  if (forms != 1) {
    throw Error(ErrorCode::bad_request,
                "give one of TEXT, - (standard input), --chat FILE and --parse FILE");
  }
  if (a.expands && a.chat.empty()) {
    throw Error(ErrorCode::bad_request, "--expand needs --chat FILE");
  }
  Output out;
  if (a.text.has_value()) {
    tokenize_text(a, out);
  } else if (!a.chat.empty()) {
    tokenize_chat(a, out);
  } else {
    parse_answer(a, out);
  }
}

}  // namespace

void add_tokenize_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("tokenize",
                         "text to tokens, a conversation to its prompt, an answer to "
                         "its parts");
  const auto a = std::make_shared<Arguments>();
  command->add_option_function<std::string>(
      "TEXT", [a](const std::string& text) { a->text = text; }, "text, or - for standard input");
  command->add_option("--tokenizer", a->tokenizer, "tokenizer.json (default: the model's)")
      ->type_name("FILE");
  command->add_flag("--plain", a->is_plain,
                    "spellings of added tokens in TEXT are ordinary characters");
  command->add_option("--chat", a->chat, "FILE with a Chat Completions body: print its prompt")
      ->type_name("FILE");
  command->add_flag("--expand", a->expands, "open the pictures and put their spans into the ids");
  command
      ->add_option("--parse", a->parse, "FILE with a generated text: take it apart (- for stdin)")
      ->type_name("FILE");
  command->add_option("--think", a->think, "on: the generated text begins with reasoning")
      ->type_name("on|off");
  command->add_flag("--json-output", a->is_json_output, "the answer is JSON (json_object)");
  command->add_flag("--in-tool-calls", a->is_in_tool_calls,
                    "the generated text begins inside a calls block");
  command->add_flag("--strict", a->is_strict,
                    "the reference's parser: complete and well-formed text or an error");
  command->add_option("--stop", a->stop, "text that ends the answer; may be repeated")
      ->allow_extra_args(false);
  add_model_options(*command, a->model);
  command->footer(
      "Examples:\n"
      "  tessera tokenize \"Hello, 世界\"\n"
      "  tessera tokenize --tokenizer tokenizer.json --json - < text.txt\n"
      "  tessera tokenize --chat request.json --expand --json\n"
      "  tessera tokenize --parse answer.txt --think on");
  command->callback([a] { run(*a); });
}

}  // namespace tessera
