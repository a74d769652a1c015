// Ids, bytes and streams of three tokenizers, recorded from the `tokenizers` library
// (tests/golden/text/README.md).
#include <gtest/gtest.h>

#include <chrono>

#include "io/sha256.h"
#include "tests/support/json_lines.h"
#include "tests/support/xz.h"
#include "tokenizer/tokenizer.h"

namespace tessera {
namespace {

std::string tokenizer_text(const std::string& name) {
  const std::string path = test::golden_path("text/tokenizers/" + name + ".tokenizer.json");
  return name == "demo_v41" ? test::read_text_file(path) : test::read_xz_file(path + ".xz");
}

std::vector<int32_t> ids_of(const io::Json& row, std::string_view key) {
  const std::vector<int64_t> wide = test::integers_of(row, key);
  return std::vector<int32_t>(wide.begin(), wide.end());
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

class GoldenTokenizer : public testing::TestWithParam<const char*> {
 protected:
  static std::vector<io::Json> rows(const std::string& kind) {
    return test::read_json_lines(test::golden_path("text/" + kind + "_" + GetParam() + ".jsonl"));
  }
  static Tokenizer load() {
    const std::string name = GetParam();
    return Tokenizer::from_json(io::parse_json(tokenizer_text(name), name), name);
  }
};

TEST_P(GoldenTokenizer, EncodesAndDecodesEveryVector) {
  const Tokenizer tokenizer = load();
  const std::vector<io::Json> vectors = rows("tok");
  ASSERT_EQ(vectors.size(), 741U);
  for (const io::Json& row : vectors) {
    const std::string text = test::text_of(row, "text");
    SCOPED_TRACE(text);
    const std::vector<int32_t> ids = ids_of(row, "ids");
    EXPECT_EQ(tokenizer.encode(text, AddedTokens::recognise), ids);
    EXPECT_EQ(tokenizer.encode(text, AddedTokens::plain),
              row.find("ids_plain") == nullptr ? ids : ids_of(row, "ids_plain"));
    std::string bytes;
    for (const int32_t id : ids) {
      bytes += tokenizer.token_bytes(id);
    }
    const io::Json* decoded = row.find("decoded_hex");
    EXPECT_EQ(bytes, decoded == nullptr ? text : from_hex(decoded->text()));
    EXPECT_EQ(tokenizer.decode(ids), bytes);  // every vector's bytes are valid UTF-8
    const io::Json* skipped = row.find("decoded_skip_special");
    EXPECT_EQ(tokenizer.decode(ids, SpecialTokens::skip),
              skipped == nullptr ? bytes : skipped->text());
  }
}

TEST_P(GoldenTokenizer, HasTheAddedTokens) {
  const Tokenizer tokenizer = load();
  const std::vector<io::Json> expected = rows("added");
  const std::vector<AddedToken>& added = tokenizer.added_tokens();
  ASSERT_EQ(added.size(), expected.size());
  for (size_t i = 0; i < added.size(); ++i) {
    const io::Json& row = expected[i];
    EXPECT_EQ(added[i].id, test::integer_of(row, "id"));
    EXPECT_EQ(added[i].text, test::text_of(row, "text"));
    EXPECT_EQ(added[i].is_special, row.find("special")->as_boolean());
    EXPECT_EQ(added[i].is_normalized, row.find("normalized")->as_boolean());
    EXPECT_EQ(tokenizer.token_id(added[i].text), added[i].id);
    EXPECT_EQ(tokenizer.token_bytes(added[i].id), added[i].text);
    EXPECT_EQ(tokenizer.is_special(added[i].id), added[i].is_special);
  }
}

TEST_P(GoldenTokenizer, StreamsCodePointsThatTokensSplit) {
  const Tokenizer tokenizer = load();
  for (const io::Json& row : rows("stream")) {
    StreamDecoder decoder(tokenizer);
    const std::vector<int32_t> ids = ids_of(row, "ids");
    const std::vector<io::Json>& bytes = row.find("bytes")->items();
    const std::vector<io::Json>& emitted = row.find("emit")->items();
    ASSERT_EQ(ids.size(), emitted.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(tokenizer.token_bytes(ids[i]), from_hex(bytes[i].text()));
      EXPECT_EQ(decoder.push(ids[i]), emitted[i].text());
    }
    EXPECT_EQ(decoder.flush(), test::text_of(row, "flush"));
    EXPECT_EQ(decoder.flush(), "");
  }
}

// A megabyte of one letter is one piece: a quadratic encoder takes minutes.
TEST_P(GoldenTokenizer, EncodesLongRunsInReasonableTime) {
  const Tokenizer tokenizer = load();
  for (const std::string unit : {"a", "中", " ", "\n", "!", "é", "\u0301", "ab "}) {
    std::string text;
    while (text.size() < 1'000'000) {
      text += unit;
    }
    const auto start = std::chrono::steady_clock::now();
    const std::vector<int32_t> ids = tokenizer.encode(text, AddedTokens::recognise);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(tokenizer.decode(ids), text);
    EXPECT_LT(seconds.count(), 30.0) << unit;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTokenizer,
                         testing::Values("deepseek_v41", "demo_v41", "qwen3_vl"),
                         [](const auto& test) { return std::string(test.param); });

TEST(GoldenTokenizers, ReleasedFileIsTheRecordedOne) {
  const std::string text = tokenizer_text("deepseek_v41");
  EXPECT_EQ(io::sha256_hex(std::as_bytes(std::span(text))),
            "c90dfa01249db1be4245780a052ede752e1361c612ac6d08e2bdada7d599476b");
}

}  // namespace
}  // namespace tessera
