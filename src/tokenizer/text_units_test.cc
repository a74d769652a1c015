// UTF-8, Unicode sets, the byte alphabet, patterns, pieces and byte pairs on their own.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "base/error.h"
#include "base/text.h"
#include "tokenizer/added_token_matcher.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/byte_pair_encoder.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace tessera {
namespace {

std::vector<std::string> pieces(std::string_view pattern, std::string_view text,
                                bool is_regex = true) {
  const PreTokenizer splitter({{std::string(pattern), is_regex, "rule"}}, "test");
  std::vector<uint32_t> ends;
  splitter.split(text, ends);
  std::vector<std::string> result;
  size_t begin = 0;
  for (const uint32_t end : ends) {
    result.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(begin, text.size());
  return result;
}

using Pieces = std::vector<std::string>;

TEST(Utf8, ReplacesMaximalSubparts) {
  // Unicode 16, table 3-8 to 3-11.
  EXPECT_EQ(replace_invalid_utf8("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41"), "��������A");
  EXPECT_EQ(replace_invalid_utf8("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41"), "��������A");
  EXPECT_EQ(replace_invalid_utf8("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42"), "�����A��B");
  EXPECT_EQ(replace_invalid_utf8("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"), "����A");
  EXPECT_EQ(replace_invalid_utf8("中文🙂"), "中文🙂");
}

TEST(Utf8, DecodesTheSameHoweverBytesAreCut) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    const std::string alphabet = "A\x80\xbf\xc2\xe0\xa0\xed\x9f\xf0\x90\xf4\x8f\xff\xe4\xb8\xad";
    for (int i = 0; i < 12; ++i) {
      bytes.push_back(alphabet[random() % alphabet.size()]);
    }
    std::string piecewise;
    Utf8Decoder decoder;
    for (const char c : bytes) {
      decoder.push({&c, 1}, piecewise);
      EXPECT_TRUE(is_valid_utf8(piecewise));
    }
    decoder.flush(piecewise);
    EXPECT_EQ(piecewise, replace_invalid_utf8(bytes));
  }
}

TEST(Utf8, CountsAppendsAndReadsCodePoints) {
  std::string text;
  const std::vector<uint32_t> code_points = {0,     0x7f,   0x80,    0x7ff,
                                             0x800, 0xffff, 0x10000, 0x10ffff};
  for (const uint32_t c : code_points) {
    append_utf8(text, c);
  }
  EXPECT_EQ(count_code_points(text), 8);
  size_t at = 0;
  for (const uint32_t c : code_points) {
    EXPECT_EQ(next_code_point(text, at), c);
  }
  EXPECT_EQ(at, text.size());
}

TEST(Unicode, KnowsVersion16) {
  const CodePointSet letters = *category_set("L");
  EXPECT_TRUE(letters.contains('a') && letters.contains(0x4e2d) && letters.contains(0xac00));
  EXPECT_FALSE(letters.contains('1') || letters.contains(0x3000));
  EXPECT_TRUE(letters.contains(0x10d4a));              // Garay, new in 16
  EXPECT_TRUE(category_set("Sk")->contains(0x1f3fb));  // emoji modifier
  EXPECT_TRUE(category_set("So")->contains(0x1fae9));  // new in 16
  EXPECT_TRUE(category_set("Cn")->contains(0x378));
  EXPECT_TRUE(category_set("N")->contains(0xb2) && category_set("No")->contains(0xb2));
  EXPECT_FALSE(category_set("Nd")->contains(0xb2));
  EXPECT_FALSE(category_set("Latin").has_value());
  EXPECT_FALSE(category_set("").has_value());
  size_t total = 0;
  for (const char* group : {"C", "L", "M", "N", "P", "S", "Z"}) {
    const CodePointSet set = *category_set(group);
    for (const CodePointRange& range : set.ranges()) {
      total += range.last - range.first + 1;
    }
  }
  EXPECT_EQ(total, size_t{kCodePoints});
}

TEST(Unicode, SetsMergeAndComplement) {
  const CodePointSet set({{5, 9}, {0, 2}, {3, 4}, {20, 20}});
  EXPECT_EQ(set.ranges(), (std::vector<CodePointRange>{{0, 9}, {20, 20}}));
  EXPECT_EQ(set.complement().ranges(),
            (std::vector<CodePointRange>{{10, 19}, {21, kCodePoints - 1}}));
  EXPECT_EQ(set.complement().complement(), set);
  EXPECT_TRUE(CodePointSet().complement().contains(kCodePoints - 1));
}

TEST(ByteAlphabet, IsAReversibleSpelling) {
  std::string spelled;
  std::string all;
  for (size_t byte = 0; byte < 256; ++byte) {
    append_utf8(spelled, byte_alphabet()[byte]);
    all.push_back(static_cast<char>(byte));
  }
  std::string bytes;
  EXPECT_TRUE(append_bytes_of_alphabet(spelled, bytes));
  EXPECT_EQ(bytes, all);
  EXPECT_FALSE(append_bytes_of_alphabet("a｜", bytes));
  EXPECT_EQ(bytes, all);
  EXPECT_EQ(byte_alphabet()[' '], 0x120);
}

TEST(PreTokenizer, MatchesAndGapsArePieces) {
  EXPECT_EQ(pieces("\\p{N}{1,3}", "a1234567中٣٤٥٦"),
            (Pieces{"a", "123", "456", "7", "中", "٣٤٥", "٦"}));
  EXPECT_EQ(pieces("--", "a--b---c", false), (Pieces{"a", "--", "b", "--", "-c"}));
  EXPECT_EQ(pieces(".", "ab\nc"), (Pieces{"a", "b", "\n", "c"}));
  EXPECT_EQ(pieces("x", ""), Pieces{});
}

TEST(PreTokenizer, UnderstandsClassesAndGroups) {
  EXPECT_EQ(pieces("[^\\s\\p{L}]+", "ab, 中! ü"), (Pieces{"ab", ",", " 中", "!", " ü"}));
  EXPECT_EQ(pieces("[\\-a\\]\\x{4e00}-\\u4E02]+", "b-a]丁丂x丄"), (Pieces{"b", "-a]丁丂", "x丄"}));
  EXPECT_EQ(pieces("\\s+(?!\\S)|\\s+", "a   b  "), (Pieces{"a", "  ", " ", "b", "  "}));
  EXPECT_EQ(pieces("(?<=a)b|(?<!a)c", "abcac"), (Pieces{"a", "b", "c", "ac"}));
  EXPECT_EQ(pieces("(ab)+|c{2,}?", "xababcccc"), (Pieces{"x", "abab", "cc", "cc"}));
  EXPECT_EQ(pieces("\\P{Lu}+", "aBcD"), (Pieces{"a", "B", "c", "D"}));
  EXPECT_EQ(pieces("[\\p{^N}]+", "a1b"), (Pieces{"a", "1", "b"}));
}

TEST(PreTokenizer, FoldsCaseOfAsciiLetters) {
  EXPECT_EQ(pieces("(?i:'s|'k|[m-n]z)", "X'S'ſ'\u212a!MZn"),
            (Pieces{"X", "'S", "'ſ", "'\u212a", "!", "MZ", "n"}));
  EXPECT_EQ(pieces("(?i:a)b", "aBAb"), (Pieces{"aB", "Ab"}));
}

TEST(PreTokenizer, SetsThatOverlapStayApart) {
  // Each rule sees the pieces of the one before.
  const PreTokenizer splitter({{"[a-f]+", true, "first"}, {"[d-k]", true, "second"}}, "test");
  std::vector<uint32_t> ends;
  splitter.split("abdegz中h", ends);
  EXPECT_EQ(ends, (std::vector<uint32_t>{2, 3, 4, 5, 9, 10}));
}

TEST(PreTokenizer, NamesWhatItDoesNotSupport) {
  for (const char* pattern :
       {"^a",        "a$",       "\\ba",    "\\w",      "\\p{Han}", "\\pL", "[a",  "[]a]",
        "[[a]b]",    "[a&&b]",   "[b-a]",   "[a-\\s]",  "(a",       "a)",   "*a",  "a**",
        "a{2,1}",    "a{x}",     "a{2}+",   "(?P<n>a)", "(?#c)",    "(*F)", "\\1", "\\x{110000}",
        "\\x{d800}", "\\xff",    "\\u12",   "\\",       "\\é",      "a*",   "a|",  "(?=a)",
        "(?i:é)",    "(?<=a*)b", "a{3000}", "\\012"}) {
    try {
      pieces(pattern, "a");
      ADD_FAILURE() << pattern << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file);
      EXPECT_EQ(std::string(error.what()).find("rule: pattern"), 0U) << error.what();
    }
  }
}

TEST(PreTokenizer, RefusesPatternsThatExplode) {
  const std::string text = std::string(200, 'a') + "xb";
  try {
    pieces("(a|a)+b", text);
    ADD_FAILURE() << "an exponential pattern came to an end";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_request);
  }
}

TEST(AddedTokenMatcher, PrefersLeftmostThenLongest) {
  const AddedTokenMatcher matcher({{"<a>", 1}, {"<a>b", 2}, {"a", 3}, {"<", 4}, {"｜", 5}});
  const auto found = [&](std::string_view text, size_t from) {
    const auto match = matcher.find(text, from);
    return match ? std::vector<size_t>{match->begin, match->end, static_cast<size_t>(match->id)}
                 : std::vector<size_t>{};
  };
  EXPECT_EQ(found("x<a>bc", 0), (std::vector<size_t>{1, 5, 2}));
  EXPECT_EQ(found("x<a>c", 0), (std::vector<size_t>{1, 4, 1}));
  EXPECT_EQ(found("x<ac", 0), (std::vector<size_t>{1, 2, 4}));
  EXPECT_EQ(found("x<ac", 2), (std::vector<size_t>{2, 3, 3}));
  EXPECT_EQ(found("中｜", 0), (std::vector<size_t>{3, 6, 5}));
  EXPECT_EQ(found("xyz", 0), std::vector<size_t>{});
  EXPECT_FALSE(AddedTokenMatcher({}).find("x", 0));
}

// The definition, step by step.
std::vector<int32_t> merge_slowly(std::string_view piece, const BytePairEncoder& encoder,
                                  const std::vector<BytePairEncoder::Merge>& merges) {
  std::vector<int32_t> parts;
  for (const char c : piece) {
    parts.push_back(static_cast<unsigned char>(c));
  }
  while (true) {
    int32_t best = -1;
    size_t at = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      const int32_t rank = encoder.rank(parts[i], parts[i + 1]);
      if (rank >= 0 && (best < 0 || rank < best)) {
        best = rank;
        at = i;
      }
    }
    if (best < 0) {
      return parts;
    }
    parts[at] = merges[static_cast<size_t>(best)].merged;
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

std::array<int32_t, 256> bytes_as_tokens() {
  std::array<int32_t, 256> ids{};
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TEST(BytePairEncoder, TakesFewMerges) {
  std::vector<BytePairEncoder::Merge> merges;
  for (int32_t count = 0; count < 20; ++count) {
    const BytePairEncoder encoder(bytes_as_tokens(), merges);
    BytePairEncoder::Scratch scratch;
    for (const size_t length : {0U, 1U, 2U, 30U, 60U}) {
      const std::string piece(length, 'a');
      std::vector<int32_t> ids;
      encoder.encode(piece, ids, scratch);
      EXPECT_EQ(ids, merge_slowly(piece, encoder, merges));
    }
    // "aa", "aaa", ...
    merges.push_back({count == 0 ? 'a' : 255 + count, 'a', 256 + count});
  }
}

TEST(BytePairEncoder, EqualsTheDefinition) {
  std::mt19937 random(7);
  const std::array<int32_t, 256> bytes = bytes_as_tokens();
  for (int round = 0; round < 200; ++round) {
    // Random merges over three letters and the tokens made so far: many ties and overlaps.
    std::vector<BytePairEncoder::Merge> merges;
    std::vector<int32_t> tokens = {'a', 'b', 'c'};
    std::vector<std::pair<int32_t, int32_t>> used;
    for (int32_t next = 256; next < 320; ++next) {
      const int32_t left = tokens[random() % tokens.size()];
      const int32_t right = tokens[random() % tokens.size()];
      if (std::find(used.begin(), used.end(), std::pair(left, right)) == used.end()) {
        used.emplace_back(left, right);
        merges.push_back({left, right, next});
        tokens.push_back(next);
      }
    }
    const BytePairEncoder encoder(bytes, merges);
    for (const int32_t left : tokens) {
      for (const int32_t right : tokens) {
        const auto merge = std::find_if(
            merges.begin(), merges.end(),
            [&](const BytePairEncoder::Merge& m) { return m.left == left && m.right == right; });
        ASSERT_EQ(encoder.rank(left, right),
                  merge == merges.end() ? -1 : static_cast<int32_t>(merge - merges.begin()));
      }
    }
    BytePairEncoder::Scratch scratch;
    for (const size_t length : {0U, 1U, 2U, 3U, 7U, 20U, 47U, 48U, 49U, 50U, 100U, 300U}) {
      std::string piece;
      for (size_t i = 0; i < length; ++i) {
        piece.push_back(static_cast<char>(
            'a' + static_cast<int>(random() % static_cast<size_t>(1 + round % 3))));
      }
      std::vector<int32_t> ids;
      encoder.encode(piece, ids, scratch);
      EXPECT_EQ(ids, merge_slowly(piece, encoder, merges)) << piece;
    }
  }
}

}  // namespace
}  // namespace tessera
