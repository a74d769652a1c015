// Messages to the prompt text and its token ids. Chat specification sections 5, 6, 8 and 9;
// reference: encoding/encoding.py of the model repository (REF), revision dba1be0a.
//
// Text of messages, tool schemas, tool arguments and tool results never becomes a control token:
// spellings such as <｜User｜> in it are ordinary characters (the behaviour of deepseek-recipe; REF
// would make control tokens of them). Only the template itself, image blocks, and the grounding
// tokens inside assistant text (<｜ref｜>, <｜box｜>, ...) give control ids.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/added_token_matcher.h"
#include "tokenizer/conversation.h"
#include "tokenizer/tokenizer.h"

namespace tessera::deepseek_v41 {

// The token that stands for a picture in a prompt, before its span replaces it.
constexpr std::string_view kImagePlaceholder = "<｜deepseek_image｜>";

struct PromptOptions {
  bool is_thinking = true;
  int effort = 75;              // 1 to 100; low 50, high 75, max 100
  bool drops_reasoning = true;  // of earlier turns, unless there are tools (drop_thinking)
  bool has_bos = true;          // if there is no context
  EncodingRevision revision = EncodingRevision::ref;
  // A forced tool call: an assistant header and the opening of a calls block end the prompt.
  bool starts_calls = false;
};

struct TextRange {
  int64_t begin;
  int64_t end;
};

struct Prompt {
  std::string text;
  std::vector<int32_t> ids;               // before image spans (span.h)
  std::vector<TextRange> special_ranges;  // code points of `text` that are control tokens
  std::vector<ImageSource> images;        // in the order of their placeholders
};

class PromptEncoder {
 public:
  // Throws Error{bad_file} if the tokenizer spells the image placeholder under another id. The
  // tokenizer outlives the encoder.
  PromptEncoder(const Tokenizer& tokenizer, int32_t image_token_id);

  // REF's text for `messages`, which follow the already encoded `context`. Other than in REF of
  // revision dba1be0a, images are listed in the order of their placeholders also when tool results
  // are reordered. Throws Error{bad_request} for an empty list, an effort out of range, a block
  // where it cannot stand, or starts_calls together with thinking, a task or a turn to continue;
  // Error{unsupported} for a control token that the tokenizer lacks.
  Prompt encode(std::span<const Message> messages, const PromptOptions& options,
                std::span<const Message> context = {}) const;

  // A prompt written out by hand: spellings of added tokens in it become these tokens.
  // special_ranges stays empty.
  Prompt encode_raw(std::string_view text, std::vector<ImageSource> images) const;

  // A text that goes on: the begin token, then the text, in which nothing is a control token.
  Prompt encode_plain(std::string_view text) const;

  // The token that begins a turn of the user, if the tokenizer has one.
  std::optional<int32_t> user_token() const;

 private:
  const Tokenizer& tokenizer_;
  int32_t image_token_id_;
  AddedTokenMatcher grounding_;
};

}  // namespace tessera::deepseek_v41
