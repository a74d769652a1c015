// Builds a prompt from control tokens and plain text. Plain text between two control tokens is
// tokenised as a whole.
#pragma once

#include <string>
#include <string_view>

#include "models/deepseek_v41/prompt.h"

namespace tessera::deepseek_v41 {

constexpr std::string_view kBos = "<｜begin▁of▁sentence｜>";
constexpr std::string_view kEos = "<｜end▁of▁sentence｜>";
constexpr std::string_view kSystem = "<｜System｜>";
constexpr std::string_view kUser = "<｜User｜>";
constexpr std::string_view kAssistant = "<｜Assistant｜>";
constexpr std::string_view kThink = "<think>";
constexpr std::string_view kEndThink = "</think>";
constexpr std::string_view kDsml = "｜DSML｜";
constexpr std::string_view kLatestReminder = "<｜latest_reminder｜>";
constexpr std::string_view kImage = kImagePlaceholder;

// The calls block, written and parsed.
constexpr std::string_view kCallsBegin = "\n\n<｜DSML｜ calls>\n";
constexpr std::string_view kCallsEnd = "\n</｜DSML｜ calls>";

class PromptWriter {
 public:
  PromptWriter(const Tokenizer& tokenizer, int32_t image_token_id,
               const AddedTokenMatcher& grounding)
      : tokenizer_(tokenizer), image_token_id_(image_token_id), grounding_(grounding) {}

  // A control token by its spelling. Throws Error{unsupported} if the tokenizer lacks it.
  void control(std::string_view spelling);
  // Text of the template, in which ｜DSML｜, <think> and </think> are control tokens.
  void template_text(std::string_view text);
  // Text from outside, all of it ordinary characters.
  void plain(std::string_view text);
  // Text that the model wrote: grounding tokens are control tokens.
  void assistant_text(std::string_view text);
  void image(const ImageSource& source);

  Prompt finish();

 private:
  void put(std::string_view spelling, int32_t id);
  void flush();

  const Tokenizer& tokenizer_;
  int32_t image_token_id_;
  const AddedTokenMatcher& grounding_;
  Prompt prompt_;
  std::string pending_;      // plain text since the last control token
  int64_t code_points_ = 0;  // of prompt_.text
};

}  // namespace tessera::deepseek_v41
