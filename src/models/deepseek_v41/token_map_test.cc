#include "models/deepseek_v41/token_map.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "io/sha256.h"
#include "tests/support/json_lines.h"
#include "tests/support/xz.h"

namespace tessera::deepseek_v41 {
namespace {

Tokenizer released_tokenizer() {
  return Tokenizer::from_json(
      io::parse_json(
          test::read_xz_file(test::golden_path("text/tokenizers/deepseek_v41.tokenizer.json.xz")),
          "tokenizer.json"),
      "tokenizer.json");
}

// Specification section 6.1: class count and hash of the map as little-endian int32, published
// with the model's ports.
TEST(TokenMap, EqualsThePublishedMap) {
  const Tokenizer tokenizer = released_tokenizer();
  const TokenMap map = make_token_map(tokenizer, 129280, 99092, "tokenizer.json");
  EXPECT_EQ(map.class_count, 99092);
  ASSERT_EQ(map.classes.size(), 129280U);
  std::string bytes;
  for (const int32_t value : map.classes) {
    for (int shift = 0; shift < 32; shift += 8) {
      bytes.push_back(static_cast<char>(value >> shift & 0xff));
    }
  }
  EXPECT_EQ(io::sha256_hex(std::as_bytes(std::span(bytes))),
            "c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481");

  const auto class_of = [&](std::string_view text) {
    return map.classes[static_cast<size_t>(tokenizer.token_id(text).value())];
  };
  for (const char* same : {"The", "the", "Ġthe", "THE", "ĠThe"}) {
    EXPECT_EQ(class_of(same), 237) << same;
  }
  EXPECT_EQ(class_of("e"), 39);
  EXPECT_EQ(class_of("Ã©"), 39);  // é
  for (const char* blank : {"Ċ", "ĉ", "Ġ", "ĠĠ"}) {
    EXPECT_EQ(class_of(blank), 174);
  }
  EXPECT_EQ(class_of("<｜System｜>"), 98611);
  EXPECT_EQ(class_of("<｜deepseek_image｜>"), 99076);
  EXPECT_EQ(map.classes.back(), 99091);
}

TEST(TokenMap, CountsTheClassesOfSmallModels) {
  const Tokenizer tiny = Tokenizer::load(test::golden_path("v41-tiny/model/tokenizer.json"));
  EXPECT_EQ(make_token_map(tiny, 384, 335, "tokenizer.json").class_count, 335);
  const Tokenizer demo =
      Tokenizer::load(test::golden_path("text/tokenizers/demo_v41.tokenizer.json"));
  const TokenMap map = make_token_map(demo, 1024, 816, "tokenizer.json");
  EXPECT_EQ(map.classes[2], 2);
  // Classes are numbered as they appear.
  int32_t next = 0;
  for (const int32_t value : map.classes) {
    ASSERT_LE(value, next);
    next = std::max(next, value + 1);
  }
  EXPECT_EQ(next, 816);
}

TEST(TokenMap, RefusesTheTokenizerOfAnotherModel) {
  const Tokenizer tiny = Tokenizer::load(test::golden_path("v41-tiny/model/tokenizer.json"));
  const auto message = [&](int64_t vocab, int64_t classes) -> std::string {
    try {
      make_token_map(tiny, vocab, classes, "folder/tokenizer.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message(385, 335),
            "folder/tokenizer.json: 384 tokens with ids up to 383, but config.json has vocab_size "
            "385; use the tokenizer.json of this model");
  EXPECT_EQ(message(384, 334),
            "folder/tokenizer.json: its tokens fall into 335 Engram classes, but config.json has "
            "engram_compressed_vocab_size 334; use the tokenizer.json of this model");
}

}  // namespace
}  // namespace tessera::deepseek_v41
