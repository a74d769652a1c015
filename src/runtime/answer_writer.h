// Tokens of an answer to its text, taken apart while it grows. Internal to the runtime.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "models/deepseek_v41/completion.h"
#include "runtime/request.h"
#include "tokenizer/answer.h"
#include "tokenizer/tokenizer.h"

namespace tessera {

class AnswerWriter {
 public:
  using OnDelta = std::function<void(const AnswerDelta&)>;

  // The tokenizer outlives the writer.
  AnswerWriter(const Tokenizer& tokenizer, deepseek_v41::CompletionOptions options,
               OnDelta on_delta)
      : decoder_(tokenizer), parser_(std::move(options)), on_delta_(std::move(on_delta)) {}

  // Takes memory for the text of so many tokens at once.
  void reserve(int64_t tokens);

  void push(int32_t id);
  // No more tokens: what was held back comes out, and `choice` gets the answer. `reason`: why it
  // ended; a stop behind tool calls is FinishReason::tool_calls.
  void finish(FinishReason reason, Choice& choice);

  // Ended the answer; empty if none did.
  const std::string& stop_string() const { return parser_.stop_string(); }

 private:
  void take(const std::string& text);
  void send();

  StreamDecoder decoder_;
  deepseek_v41::CompletionParser parser_;
  OnDelta on_delta_;
  std::vector<AnswerDelta> deltas_;
  Answer answer_;
  std::string text_;
};

}  // namespace tessera
