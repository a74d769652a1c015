// What the tests of the completion parsers share: runs a text through one and puts its answer
// together.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json.h"
#include "models/deepseek_v41/completion.h"
#include "tokenizer/utf8.h"

namespace tessera::deepseek_v41 {

using Deltas = std::vector<AnswerDelta>;

struct StreamRun {
  std::vector<Deltas> pushes;  // the last one is finish()'s
  std::vector<bool> is_finished;
  std::string stop_string;
  int64_t calls = 0;
};

inline StreamRun run(const CompletionOptions& options, const std::vector<std::string>& pieces) {
  StreamRun result;
  CompletionParser parser(options);
  for (const std::string& piece : pieces) {
    parser.push(piece, result.pushes.emplace_back());
    result.is_finished.push_back(parser.is_finished());
  }
  parser.finish(result.pushes.emplace_back());
  result.is_finished.push_back(parser.is_finished());
  result.stop_string = parser.stop_string();
  result.calls = parser.calls();
  return result;
}

inline void append(const Deltas& deltas, Answer& answer) {
  for (const AnswerDelta& delta : deltas) {
    tessera::append(delta, answer);
  }
}

inline Answer answer_of(const StreamRun& stream) {
  Answer answer;
  for (const Deltas& deltas : stream.pushes) {
    append(deltas, answer);
  }
  return answer;
}

inline Answer parse_stream(const CompletionOptions& options, const std::string& text) {
  return answer_of(run(options, {text}));
}

inline std::vector<std::string> code_points(const std::string& text) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    next_code_point(text, at);
    pieces.push_back(text.substr(begin, at - begin));
  }
  return pieces;
}

// `options` of a row of parse_recipe.jsonl.
inline CompletionOptions options_of(const io::Json& row) {
  using Start = CompletionOptions::Start;
  CompletionOptions options;
  const io::Json& json = *row.find("options");
  const auto flag = [&](std::string_view key, bool fallback) {
    const io::Json* value = json.find(key);
    return value == nullptr ? fallback : value->as_boolean().value();
  };
  const std::string stage = json.find("stage") == nullptr ? "" : json.find("stage")->text();
  if (flag("starts_in_tool_calls", false)) {
    options.start = Start::calls;
  } else if (!stage.empty()) {
    options.start = stage == "ReasoningStart"          ? Start::reasoning
                    : stage == "ReasoningContinuation" ? Start::continued_reasoning
                                                       : Start::continued_answer;
  }
  options.parses_calls = flag("parse_tool_calls", true);
  options.is_json = flag("parse_json_output", false);
  if (const io::Json* stop = json.find("stop")) {
    for (const io::Json& text : stop->items()) {
      options.stop.push_back(text.text());
    }
  }
  return options;
}

// One line for messages.
inline std::string shown(const Answer& answer) {
  std::string text = "R[" + answer.reasoning + "] C[" + answer.content + "]";
  for (const AnsweredCall& call : answer.tool_calls) {
    text += " " + call.name_space + "::" + call.name + "(" + call.arguments + ")";
  }
  return text;
}

}  // namespace tessera::deepseek_v41
