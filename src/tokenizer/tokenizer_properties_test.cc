// What holds for every text, on random ones: nothing is lost, nothing is invented, and neither
// streams nor repeated words change a result.
#include <gtest/gtest.h>
#include <utf8proc.h>

#include <iterator>
#include <memory>
#include <random>

#include "base/str_cat.h"
#include "base/text.h"
#include "tests/support/json_lines.h"
#include "tests/support/xz.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/unicode.h"

namespace tessera {
namespace {

using Ids = std::vector<int32_t>;

// Random texts whose code points come in stretches of one kind, as real ones do.
class RandomText {
 public:
  explicit RandomText(uint32_t seed) : random_(seed) {}

  size_t below(size_t n) { return random_() % n; }

  std::string bytes(size_t count) {
    std::string result;
    while (result.size() < count) {
      // Lead and trail bytes, so that sequences are nearly right.
      result.push_back(static_cast<char>(below(3) == 0 ? below(128) : 128 + below(128)));
    }
    return result;
  }

  // Valid UTF-8.
  std::string text(size_t stretches) {
    std::string result;
    for (size_t i = 0; i < stretches; ++i) {
      add_stretch(result);
    }
    return result;
  }

 private:
  void add_stretch(std::string& result) {
    static constexpr CodePointRange kKinds[] = {
        {'a', 'z'},         {' ', '~'},         {'0', '9'},          {0, 0x1f},
        {' ', ' '},         {'\n', '\r'},       {0x80, 0xff},        {0x300, 0x36f},
        {0x370, 0x5ff},     {0x600, 0x6ff},     {0x900, 0x97f},      {0x1100, 0x11ff},
        {0x1e00, 0x1fff},   {0x2000, 0x206f},   {0x2100, 0x22ff},    {0x3000, 0x30ff},
        {0x4e00, 0x9fff},   {0x4e00, 0x9fff},   {0xac00, 0xd7a3},    {0xe000, 0xe0ff},
        {0xf900, 0xfaff},   {0xfe00, 0xfe0f},   {0xff00, 0xffef},    {0xfff0, 0xffff},
        {0x10300, 0x10fff}, {0x1d400, 0x1d7ff}, {0x1f1e6, 0x1f1ff},  {0x1f300, 0x1f9ff},
        {0x20000, 0x2a6df}, {0xe0000, 0xe007f}, {0x30000, 0x10ffff}, {0x0, 0xd7ff}};
    if (below(8) == 0) {
      static constexpr const char* kSamples[] = {
          "\U0001f468\u200d\U0001f469\u200d\U0001f467",  // a family, joined
          "\U0001f3f3\ufe0f\u200d\U0001f308",            // a flag, with a variation selector
          "\U0001f44d\U0001f3fd",                        // with a skin tone
          "e\u0301\u0323",
          "\u1112\u1161\u11ab",
          "\u212b",  // what composes, reorders, changes
          "\u0344\u0958\ufb1d",
          "\r\n \n\t ",
          "don't WE'LL",
          "https://a.b/c?d=1&e=%20"};
      result += kSamples[below(std::size(kSamples))];
      return;
    }
    const CodePointRange kind = kKinds[below(std::size(kKinds))];
    for (size_t count = 1 + below(12); count > 0; --count) {
      const uint32_t size = kind.last - kind.first + 1;
      append_utf8(result, kind.first + static_cast<uint32_t>(below(size)));
    }
  }

  std::mt19937 random_;
};

std::string nfc(std::string_view text) {
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &composed,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  EXPECT_GE(size, 0);
  const std::string result(reinterpret_cast<const char*>(composed), static_cast<size_t>(size));
  std::free(composed);
  return result;
}

std::string streamed(const Tokenizer& tokenizer, const Ids& ids) {
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (const int32_t id : ids) {
    text += decoder.push(id);
    EXPECT_TRUE(is_valid_utf8(text));
  }
  return text + decoder.flush();
}

class TokenizerProperties : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string name = GetParam();
    const std::string path = test::golden_path("text/tokenizers/" + name + ".tokenizer.json");
    root_ = io::parse_json(
        name == "demo_v41" ? test::read_text_file(path) : test::read_xz_file(path + ".xz"), name);
    tokenizer_ = std::make_unique<Tokenizer>(Tokenizer::from_json(root_, name));
  }

  bool normalizes() const { return std::string_view(GetParam()) == "qwen3_vl"; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

  io::Json root_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(TokenizerProperties, DecodingGivesTheTextBack) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    RandomText random(seed);
    const std::string text = random.text(1 + seed % 40);
    const Ids ids = tokenizer().encode(text, AddedTokens::plain);
    ASSERT_EQ(tokenizer().decode(ids), normalizes() ? nfc(text) : text) << "seed " << seed;
    // The text has no spelling of an added token.
    ASSERT_EQ(tokenizer().encode(text, AddedTokens::recognise), ids) << "seed " << seed;
  }
}

TEST_P(TokenizerProperties, PlainTextHasNoAddedTokens) {
  const std::vector<AddedToken>& added = tokenizer().added_tokens();
  ASSERT_FALSE(added.empty());
  std::vector<bool> is_added(static_cast<size_t>(tokenizer().size()));
  for (const AddedToken& token : added) {
    is_added[static_cast<size_t>(token.id)] = true;
  }
  RandomText random(1);
  int64_t recognised = 0;
  for (size_t i = 0; i < added.size(); ++i) {
    const std::string& spelling = added[i].text;
    const size_t cut = random.below(spelling.size() + 1);
    // Whole, doubled, cut in two by something, and one that begins inside of another.
    const std::string text =
        str_cat(spelling, random.text(2), spelling, spelling, random.text(2),
                spelling.substr(0, cut), random.text(1), spelling.substr(cut),
                spelling.substr(0, cut), added[random.below(added.size())].text);
    for (const int32_t id : tokenizer().encode(text, AddedTokens::plain)) {
      ASSERT_FALSE(is_added[static_cast<size_t>(id)]) << quoted(text);
    }
    for (const int32_t id : tokenizer().encode(text, AddedTokens::recognise)) {
      recognised += is_added[static_cast<size_t>(id)] ? 1 : 0;
    }
  }
  EXPECT_GE(recognised, static_cast<int64_t>(4 * added.size()));
}

TEST_P(TokenizerProperties, StreamsEqualDecoding) {
  RandomText random(2);
  const size_t size = static_cast<size_t>(tokenizer().size());
  for (int round = 0; round < 200; ++round) {
    Ids ids;
    // Any ids: also those that are no token, and halves of characters that never meet.
    for (size_t count = random.below(40); count > 0; --count) {
      const size_t kind = random.below(20);
      ids.push_back(kind == 0   ? -1 - static_cast<int32_t>(random.below(3))
                    : kind == 1 ? static_cast<int32_t>(size + random.below(3))
                    : kind < 10 ? static_cast<int32_t>(random.below(300))
                                : static_cast<int32_t>(random.below(size)));
    }
    ASSERT_EQ(streamed(tokenizer(), ids), tokenizer().decode(ids)) << "round " << round;
    const Ids whole = tokenizer().encode(random.text(20), AddedTokens::plain);
    ASSERT_EQ(streamed(tokenizer(), whole), tokenizer().decode(whole)) << "round " << round;
  }
}

TEST_P(TokenizerProperties, IllFormedTextEqualsItsReplacement) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    RandomText random(seed);
    const std::string bytes = random.bytes(1 + seed % 60) + random.text(2) + random.bytes(3);
    const std::string replaced = replace_invalid_utf8(bytes);
    ASSERT_TRUE(is_valid_utf8(replaced));
    for (const AddedTokens added : {AddedTokens::plain, AddedTokens::recognise}) {
      const Ids ids = tokenizer().encode(bytes, added);
      ASSERT_EQ(ids, tokenizer().encode(replaced, added)) << quoted(bytes);
      ASSERT_EQ(tokenizer().decode(ids), normalizes() ? nfc(replaced) : replaced) << quoted(bytes);
    }
  }
}

// The tokens of a text are those of its pieces one after the other, whatever was met before.
TEST_P(TokenizerProperties, RepeatedPiecesHaveTheSameTokens) {
  const TokenizerParts parts = read_tokenizer_json(root_, GetParam());
  const PreTokenizer splitter(parts.splits, GetParam());
  const BytePairEncoder encoder(parts.byte_ids, parts.merges);
  RandomText random(3);
  // Words of all lengths around the longest that is remembered, many of them more than once; more
  // different ones than are remembered.
  std::vector<std::string> words;
  for (size_t i = 0; i < 30'000; ++i) {
    std::string word = " ";
    for (size_t size = i < 100 ? 55 + i % 20 : 1 + random.below(6); size > 0; --size) {
      word += static_cast<char>('a' + random.below(5));
    }
    words.push_back(word);
  }
  std::string text;
  for (int i = 0; i < 40'000; ++i) {
    text += words[random.below(random.below(2) == 0 ? 300 : words.size())];
  }
  text += nfc(random.text(3000));
  std::vector<uint32_t> ends;
  splitter.split(text, ends);
  Ids expected;
  size_t begin = 0;
  for (const uint32_t end : ends) {
    BytePairEncoder::Scratch scratch;
    encoder.encode(std::string_view(text).substr(begin, end - begin), expected, scratch);
    begin = end;
  }
  EXPECT_EQ(tokenizer().encode(text, AddedTokens::plain), expected);
}

// The queue of a long piece holds three entries for each byte at most, so a piece takes
// O(n log n); without counting, only a clock would tell.
TEST_P(TokenizerProperties, LongPiecesTakeFewSteps) {
  const TokenizerParts parts = read_tokenizer_json(root_, GetParam());
  const BytePairEncoder encoder(parts.byte_ids, parts.merges);
  for (const std::string unit : {"a", " ", "中", "ab", "\n", "国家"}) {
    std::string piece;
    while (piece.size() < 100'000) {
      piece += unit;
    }
    BytePairEncoder::Scratch scratch;
    Ids ids;
    encoder.encode(piece, ids, scratch);
    EXPECT_EQ(tokenizer().decode(ids), piece);
    EXPECT_LE(scratch.queued, 3 * static_cast<int64_t>(piece.size())) << unit;
    EXPECT_TRUE(scratch.queue.empty());
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerProperties,
                         testing::Values("deepseek_v41", "demo_v41", "qwen3_vl"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace tessera
