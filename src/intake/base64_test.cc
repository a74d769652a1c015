#include "intake/base64.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <tuple>

#include "base/str_cat.h"

namespace tessera::intake {
namespace {

constexpr int64_t kMost = int64_t{1} << 20;

// The decoded bytes as text, or "FAULT: DETAIL".
std::string decoded(std::string_view text, int64_t max_bytes = kMost) {
  const auto result = decode_base64(text, max_bytes);
  if (const Refusal* refusal = std::get_if<Refusal>(&result)) {
    return str_cat(fault_name(refusal->fault), ": ", refusal->detail);
  }
  std::string out;
  for (const std::byte byte : std::get<0>(result)) {
    out.push_back(static_cast<char>(byte));
  }
  return out;
}

std::string fault_of(std::string_view text, int64_t max_bytes = kMost) {
  const std::string result = decoded(text, max_bytes);
  return result.substr(0, result.find(':'));
}

// RFC 4648 section 4, by the definition: bits in groups of six.
std::string encoded(std::string_view bytes, bool is_url_safe = false) {
  const std::string alphabet = str_cat(
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", is_url_safe ? "-_" : "+/");
  std::string out;
  uint32_t bits = 0;
  uint32_t have = 0;
  for (const char c : bytes) {
    bits = (bits << 8U) | static_cast<unsigned char>(c);
    for (have += 8; have >= 6; have -= 6) {
      out.push_back(alphabet[(bits >> (have - 6)) & 63U]);
    }
  }
  if (have > 0) {
    out.push_back(alphabet[(bits << (6 - have)) & 63U]);
  }
  while (out.size() % 4 != 0) {
    out.push_back('=');
  }
  return out;
}

std::string random_bytes(std::mt19937& random, size_t count) {
  std::string bytes(count, '\0');
  for (char& c : bytes) {
    c = static_cast<char>(random() & 0xffU);
  }
  return bytes;
}

TEST(Base64, VectorsOfTheStandard) {
  for (const auto& [text, bytes] :
       {std::pair{"Zg==", "f"}, std::pair{"Zm8=", "fo"}, std::pair{"Zm9v", "foo"},
        std::pair{"Zm9vYg==", "foob"}, std::pair{"Zm9vYmE=", "fooba"},
        std::pair{"Zm9vYmFy", "foobar"}}) {
    EXPECT_EQ(decoded(text), bytes);
  }
}

TEST(Base64, EverySpellingOfRandomBytesIsRead) {
  std::mt19937 random(7);
  for (size_t count = 1; count < 70; ++count) {
    const std::string bytes = random_bytes(random, count);
    const std::string standard = encoded(bytes);
    const std::string url_safe = encoded(bytes, true);
    EXPECT_EQ(decoded(standard), bytes);
    EXPECT_EQ(decoded(url_safe), bytes);
    EXPECT_EQ(decoded(std::string_view(standard).substr(0, standard.find('='))), bytes);
    EXPECT_EQ(decoded(std::string_view(url_safe).substr(0, url_safe.find('='))), bytes);
    std::string spaced;
    for (const char c : standard) {
      spaced.append(random() % 3, " \t\n\f\r"[random() % 5]);
      spaced.push_back(c);
    }
    EXPECT_EQ(decoded(spaced + "\r\n"), bytes);
  }
}

TEST(Base64, BothAlphabetsMayMix) {
  EXPECT_EQ(decoded("+/-_"), decoded("-_+/"));
  EXPECT_EQ(decoded("+/-_"), "\xfb\xff\xbf");
}

TEST(Base64, PaddingMayBeWholePartialOrMissing) {
  for (const std::string_view text : {"Zg", "Zg=", "Zg==", "Zg = = ", "Z g", "Zg\n=="}) {
    EXPECT_EQ(decoded(text), "f") << text;
  }
  for (const std::string_view text : {"Zm8", "Zm8="}) {
    EXPECT_EQ(decoded(text), "fo") << text;
  }
}

TEST(Base64, WrongPaddingIsRefused) {
  for (const std::string_view text : {"=", "====", "Zg===", "Zm8==", "Zm9v=", "Zm9v====",
                                      "Zg==Zg==", "Zg=Z", "Zm=8", "Zm9vZg==Z"}) {
    EXPECT_EQ(fault_of(text), "corrupt") << text;
  }
  // One character is less than a byte, padded or not.
  for (const std::string_view text : {"Z", "Zm9vZ", "Z===", "Zm9v Z"}) {
    EXPECT_EQ(fault_of(text), "truncated") << text;
  }
}

TEST(Base64, EveryOtherByteIsRefusedWithItsPositionAndNotTheText) {
  const std::string_view alphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_= \t\n\f\r";
  for (int byte = 0; byte < 256; ++byte) {
    if (alphabet.find(static_cast<char>(byte)) != std::string_view::npos) {
      continue;
    }
    for (const size_t position : {0U, 3U, 4U, 9U, 11U}) {
      std::string text = "c2VjcmV0IGRh";
      text[position] = static_cast<char>(byte);
      EXPECT_EQ(decoded(text),
                str_cat("corrupt: the character at byte ", position,
                        " of the base64 text (counted from 0) is not in its alphabet; encode the "
                        "picture again"));
    }
  }
  EXPECT_EQ(decoded("Zg==*").substr(0, 36), "corrupt: the character at byte 4 of ");
  EXPECT_EQ(decoded("Zm9vYg==YmFy").substr(0, 34), "corrupt: the padding at byte 8 of ");
}

TEST(Base64, NothingIsRefused) {
  for (const std::string_view text : {"", " ", "\r\n\t \f"}) {
    EXPECT_EQ(fault_of(text), "empty");
  }
}

TEST(Base64, TheLimitCountsDecodedBytes) {
  std::mt19937 random(8);
  for (const size_t count : {1U, 2U, 3U, 4U, 5U, 6U, 100U, 101U, 102U}) {
    const std::string bytes = random_bytes(random, count);
    const std::string text = encoded(bytes);
    const auto limit = static_cast<int64_t>(count);
    EXPECT_EQ(decoded(text, limit), bytes) << count;
    EXPECT_EQ(decoded(str_cat("  ", text, std::string(200, '\n')), limit), bytes) << count;
    EXPECT_EQ(fault_of(text, limit - 1), "too_large") << count;
    EXPECT_EQ(fault_of(text.substr(0, text.find('=')), limit - 1), "too_large") << count;
  }
  EXPECT_EQ(decoded("Zm9v", 2),
            "too_large: the base64 text holds more than 2 bytes; send a smaller picture");
  EXPECT_EQ(fault_of("Zm9v", 0), "too_large");
  EXPECT_EQ(fault_of("Zm9v", -1), "too_large");
}

}  // namespace
}  // namespace tessera::intake
