#include "runtime/answer_writer.h"

namespace tessera {

void AnswerWriter::reserve(int64_t tokens) {
  constexpr int64_t kTokenBytes = 6;  // more than tokens of any language have on average
  const size_t bytes = static_cast<size_t>(tokens * kTokenBytes);
  text_.reserve(bytes);
  answer_.reasoning.reserve(bytes);
  answer_.content.reserve(bytes);
  deltas_.reserve(4);
}

void AnswerWriter::push(int32_t id) { take(decoder_.push(id)); }

void AnswerWriter::finish(FinishReason reason, Choice& choice) {
  take(decoder_.flush());
  parser_.finish(deltas_);
  send();
  choice.answer = answer_;
  choice.text = text_;
  choice.stop_string = stop_string();
  choice.finish_reason = reason == FinishReason::stop && !answer_.tool_calls.empty()
                             ? FinishReason::tool_calls
                             : reason;
}

void AnswerWriter::take(const std::string& text) {
  text_ += text;
  parser_.push(text, deltas_);
  send();
}

void AnswerWriter::send() {
  for (const AnswerDelta& delta : deltas_) {
    append(delta, answer_);
    if (on_delta_) {
      on_delta_(delta);
    }
  }
  deltas_.clear();
}

}  // namespace tessera
