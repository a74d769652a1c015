// Generated text back to reasoning, content and tool calls. Chat specification section 11.
//
// Two parsers: the strict one of the reference (REF, parse_message_from_completion_text), which
// wants a complete and well-formed text, and a tolerant streaming one (deepseek-recipe's state
// machine), which is fed decoded text in pieces of any size and never fails.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/answer.h"

namespace tessera::deepseek_v41 {

// Strict. `text` is a whole completion including the spelling of the end token; `is_thinking`: it
// begins with reasoning. Throws Error{bad_request} that says what was expected, found and where
// (byte offset) for anything that is not well-formed. As in the reference, values of
// string="false" are copied unread, and a text that ends inside a block of calls right behind a
// tag's name or behind the line of an invoke or a parameter is taken as complete.
Answer parse_completion(std::string_view text, bool is_thinking);

struct CompletionOptions {
  enum class Start {
    reasoning,            // behind <think>
    answer,               // behind </think>
    continued_reasoning,  // like reasoning and answer, but leading newlines are kept
    continued_answer,
    calls,  // inside a calls block (forced calls)
  };
  Start start = Start::answer;
  bool parses_calls = true;  // false: a calls block is content
  bool is_json = false;      // JSON mode: what is around the JSON text becomes blanks
  // End the answer when they appear in its content, or in JSON mode in the JSON text. The one that
  // begins first counts, of several the shortest. None is empty; 1 MiB together.
  std::vector<std::string> stop;
};

// Tolerant, streaming. The deltas of all pushes and of finish(), put together, do not depend on how
// the text was cut. What is around the JSON text in JSON mode becomes one blank before and one
// behind it. A tag and the newlines before it are no content: a stop string that begins inside them
// counts only if the tag stays unfinished, one that begins with the first of these newlines (or
// before) comes first.
// A call keeps arguments that are no JSON if the name or type of a parameter is not well-formed, if
// the text breaks off in it, or if a value of string="false" is none.
// Where deepseek-recipe is defective this is not: parameter names are JSON-escaped and may hold
// blanks, and no text is dropped at the end.
class CompletionParser {
 public:
  // Throws Error{bad_request} for stop strings that are empty, no UTF-8 or too long.
  explicit CompletionParser(CompletionOptions options);
  ~CompletionParser();
  CompletionParser(CompletionParser&&) noexcept;
  CompletionParser& operator=(CompletionParser&&) noexcept;

  // More text (complete code points), whose deltas are appended; none has an empty text but the
  // name of a call. Text that may still become a tag or a stop string is held back, nothing else is
  // (but the name of a call, given out whole). Time is linear in the text.
  void push(std::string_view text, std::vector<AnswerDelta>& deltas);
  // End of the text: what was held back is no tag. Calls that are open stay open.
  void finish(std::vector<AnswerDelta>& deltas);

  // The answer is over: a stop string appeared or the calls block was closed. Further text is
  // dropped.
  bool is_finished() const;
  // The stop string that ended the answer; empty if none did.
  const std::string& stop_string() const;
  int64_t calls() const;  // begun so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::deepseek_v41
