#include "models/deepseek_v41/prompt_writer.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tokenizer/utf8.h"

namespace tessera::deepseek_v41 {

void PromptWriter::flush() {
  const std::vector<int32_t> ids = tokenizer_.encode(pending_, AddedTokens::plain);
  prompt_.ids.insert(prompt_.ids.end(), ids.begin(), ids.end());
  prompt_.text += pending_;
  code_points_ += count_code_points(pending_);
  pending_.clear();
}

void PromptWriter::put(std::string_view spelling, int32_t id) {
  flush();
  const int64_t begin = code_points_;
  prompt_.ids.push_back(id);
  prompt_.text += spelling;
  code_points_ += count_code_points(spelling);
  prompt_.special_ranges.push_back({begin, code_points_});
}

void PromptWriter::control(std::string_view spelling) {
  const std::optional<int32_t> id = tokenizer_.token_id(spelling);
  if (!id) {
    throw Error(ErrorCode::unsupported,
                str_cat("the model's tokenizer has no token ", spelling,
                        ", which this conversation needs; leave out what asks for it"));
  }
  put(spelling, *id);
}

void PromptWriter::template_text(std::string_view text) {
  while (!text.empty()) {
    size_t first = std::string_view::npos;
    std::string_view token;
    for (const std::string_view candidate : {kDsml, kThink, kEndThink}) {
      const size_t at = text.find(candidate);
      if (at < first) {
        first = at;
        token = candidate;
      }
    }
    plain(text.substr(0, first));
    if (first == std::string_view::npos) {
      return;
    }
    control(token);
    text.remove_prefix(first + token.size());
  }
}

void PromptWriter::plain(std::string_view text) {
  if (is_valid_utf8(text)) {
    pending_ += text;
  } else {
    pending_ += replace_invalid_utf8(text);
  }
}

void PromptWriter::assistant_text(std::string_view text) {
  size_t begin = 0;
  while (const auto match = grounding_.find(text, begin)) {
    plain(text.substr(begin, match->begin - begin));
    put(text.substr(match->begin, match->end - match->begin), match->id);
    begin = match->end;
  }
  plain(text.substr(begin));
}

void PromptWriter::image(const ImageSource& source) {
  put(kImage, image_token_id_);
  prompt_.images.push_back(source);
}

Prompt PromptWriter::finish() {
  flush();
  return std::move(prompt_);
}

}  // namespace tessera::deepseek_v41
