#include "runtime/request.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera {
namespace {

class OptionChecks {
 public:
  explicit OptionChecks(OptionNames names) : names_(names) {}

  [[noreturn]] void refuse(std::string_view name, std::string_view what) const {
    throw Error(ErrorCode::bad_request, str_cat(spelled(name), " ", what));
  }

  template <typename T>
  void range(std::string_view name, T value, T low, T high) const {
    if (!(value >= low && value <= high)) {
      refuse(name, str_cat(value, ": expected ", low, " to ", high));
    }
  }

 private:
  // top_p, or --top-p.
  std::string spelled(std::string_view name) const {
    std::string text(name);
    if (names_ == OptionNames::command_line) {
      std::replace(text.begin(), text.end(), '_', '-');
      text.insert(0, "--");
    }
    return text;
  }

  OptionNames names_;
};

}  // namespace

void check_options(const Request& request, OptionNames names) {
  constexpr int64_t kMost = int64_t{1} << 40;
  const OptionChecks check(names);
  const SamplingRequest& s = request.sampling;
  check.range("temperature", s.temperature.value_or(1), 0.0, 100.0);
  check.range("top_k", s.top_k.value_or(0), int64_t{0}, kMost);
  check.range("top_p", s.top_p.value_or(1), 0.0, 1.0);
  check.range("min_p", s.min_p.value_or(0), 0.0, 1.0);
  check.range("repetition_penalty", s.repetition_penalty.value_or(1), 0.01, 100.0);
  check.range("presence_penalty", s.presence_penalty, -100.0, 100.0);
  check.range("frequency_penalty", s.frequency_penalty, -100.0, 100.0);
  for (const auto& [id, bias] : s.logit_bias) {
    if (!(bias >= -1000 && bias <= 1000)) {
      check.refuse("logit_bias",
                   str_cat("of token ", id, " is ", bias, ": expected -1000 to 1000"));
    }
  }
  check.range("max_tokens", request.max_tokens.value_or(1), int64_t{1}, kMost);
  check.range("min_tokens", request.min_tokens, int64_t{0}, kMost);
  check.range("logprobs", request.logprobs.value_or(0), int64_t{0}, kMaxTopLogprobs);
  check.range("n", request.choices, int64_t{1}, kMaxChoices);
  if (static_cast<int64_t>(request.stop.size()) > kMaxStopStrings) {
    check.refuse("stop", str_cat("has ", request.stop.size(), " strings: expected at most ",
                                 kMaxStopStrings));
  }
  if (std::any_of(request.stop.begin(), request.stop.end(),
                  [](const std::string& text) { return text.empty(); })) {
    check.refuse("stop", "has an empty string: it would end every answer at once; leave it out");
  }
}

int64_t Result::completion_tokens() const {
  int64_t tokens = 0;
  for (const Choice& choice : choices) {
    tokens += static_cast<int64_t>(choice.ids.size());
  }
  return tokens;
}

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::tool_calls:
      return "tool_calls";
    case FinishReason::cancelled:
      break;
  }
  return "cancelled";
}

}  // namespace tessera
