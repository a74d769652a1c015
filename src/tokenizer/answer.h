// What a model answers, taken apart: reasoning, content and tool calls; whole, and as it arrives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

struct AnsweredCall {
  std::string name;
  std::string name_space;  // of a call "namespace::name"; empty without one
  std::string arguments;   // text of a JSON object, as far as it came

  bool operator==(const AnsweredCall&) const = default;
};

struct Answer {
  std::string reasoning;
  std::string content;
  std::vector<AnsweredCall> tool_calls;

  bool operator==(const Answer&) const = default;
};

// A piece of an answer. Texts of one kind (and call) are to be put behind each other; every text is
// whole code points.
struct AnswerDelta {
  enum class Kind {
    reasoning,
    content,
    call_name,       // a call begins; `text` is its whole name as written ("namespace::name")
    call_arguments,  // more of the arguments' JSON text
  };
  Kind kind = Kind::content;
  std::string text;
  int64_t call = 0;  // of call_name and call_arguments: number of the call, from 0

  bool operator==(const AnswerDelta&) const = default;
};

// Appends a delta to the answer that the earlier deltas made.
void append(const AnswerDelta& delta, Answer& answer);

}  // namespace tessera
