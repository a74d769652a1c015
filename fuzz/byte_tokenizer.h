// A tokenizer for targets that encode prompts: one token for each byte, no merges, and the control
// tokens of DeepSeek-V4.1.
#pragma once

#include <string>
#include <string_view>

#include "fuzz/target.h"
#include "io/json.h"
#include "models/deepseek_v41/prompt.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace tessera::fuzz {

constexpr int32_t kFirstControlId = 256;
constexpr int32_t kImageId = kFirstControlId;

inline Tokenizer make_byte_tokenizer() {
  using io::Json;
  Json vocabulary = Json::object();
  for (size_t byte = 0; byte < 256; ++byte) {
    std::string spelling;
    append_utf8(spelling, byte_alphabet()[byte]);
    vocabulary.members().emplace_back(spelling, Json::number(static_cast<int64_t>(byte)));
  }
  Json added = Json::array();
  int64_t id = kFirstControlId;
  for (const std::string_view spelling :
       {deepseek_v41::kImagePlaceholder, std::string_view("<｜begin▁of▁sentence｜>"),
        std::string_view("<｜end▁of▁sentence｜>"), std::string_view("<｜System｜>"),
        std::string_view("<｜User｜>"), std::string_view("<｜Assistant｜>"),
        std::string_view("<think>"), std::string_view("</think>"), std::string_view("｜DSML｜"),
        std::string_view("<｜latest_reminder｜>"), std::string_view("<｜action｜>"),
        std::string_view("<｜query｜>"), std::string_view("<｜authority｜>"),
        std::string_view("<｜domain｜>"), std::string_view("<｜title｜>"),
        std::string_view("<｜read_url｜>"), std::string_view("<｜ref｜>"),
        std::string_view("<｜/ref｜>")}) {
    added.items().push_back(Json::object({{"id", Json::number(id++)},
                                          {"content", Json::string(std::string(spelling))},
                                          {"single_word", Json::boolean(false)},
                                          {"lstrip", Json::boolean(false)},
                                          {"rstrip", Json::boolean(false)},
                                          {"normalized", Json::boolean(false)},
                                          {"special", Json::boolean(true)}}));
  }
  const Json byte_level = Json::object({{"type", Json::string("ByteLevel")},
                                        {"add_prefix_space", Json::boolean(false)},
                                        {"trim_offsets", Json::boolean(false)},
                                        {"use_regex", Json::boolean(false)}});
  return Tokenizer::from_json(
      Json::object({{"added_tokens", std::move(added)},
                    {"normalizer", Json()},
                    {"pre_tokenizer", byte_level},
                    {"post_processor", byte_level},
                    {"decoder", byte_level},
                    {"model", Json::object({{"type", Json::string("BPE")},
                                            {"vocab", std::move(vocabulary)},
                                            {"merges", Json::array()}})}}),
      "bytes");
}

inline const Tokenizer& byte_tokenizer() {
  static const Tokenizer tokenizer = make_byte_tokenizer();
  return tokenizer;
}

// What holds for every prompt: the ids spell the text, there is a placeholder for each picture, and
// (but for a prompt written by hand) text from outside gave no control token.
inline void check_prompt(const deepseek_v41::Prompt& prompt, bool is_raw) {
  size_t images = 0;
  size_t controls = 0;
  for (const int32_t id : prompt.ids) {
    images += id == kImageId ? 1 : 0;
    controls += id >= kFirstControlId ? 1 : 0;
  }
  TESSERA_CHECK(byte_tokenizer().decode(prompt.ids) == prompt.text);
  TESSERA_CHECK(is_raw || images == prompt.images.size());
  TESSERA_CHECK(is_raw || controls == prompt.special_ranges.size());
  int64_t end = 0;
  for (const deepseek_v41::TextRange& range : prompt.special_ranges) {
    TESSERA_CHECK(range.begin >= end && range.end > range.begin);
    end = range.end;
  }
}

}  // namespace tessera::fuzz
