#include "tokenizer/answer.h"

#include "base/check.h"

namespace tessera {

void append(const AnswerDelta& delta, Answer& answer) {
  switch (delta.kind) {
    case AnswerDelta::Kind::reasoning:
      answer.reasoning += delta.text;
      return;
    case AnswerDelta::Kind::content:
      answer.content += delta.text;
      return;
    case AnswerDelta::Kind::call_name: {
      constexpr std::string_view kSeparator = "::";
      const size_t at = delta.text.find(kSeparator);
      AnsweredCall& call = answer.tool_calls.emplace_back();
      if (at == std::string::npos) {
        call.name = delta.text;
      } else {
        call.name_space = delta.text.substr(0, at);
        call.name = delta.text.substr(at + kSeparator.size());
      }
      return;
    }
    case AnswerDelta::Kind::call_arguments:
      TESSERA_CHECK(static_cast<size_t>(delta.call) < answer.tool_calls.size());
      answer.tool_calls[static_cast<size_t>(delta.call)].arguments += delta.text;
  }
}

}  // namespace tessera
