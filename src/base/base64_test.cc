#include "base/base64.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace tessera {
namespace {

// RFC 4648, section 10.
TEST(Base64, KnownAnswers) {
  const std::vector<std::pair<std::string, std::string>> cases = {{"", ""},
                                                                  {"f", "Zg=="},
                                                                  {"fo", "Zm8="},
                                                                  {"foo", "Zm9v"},
                                                                  {"foob", "Zm9vYg=="},
                                                                  {"fooba", "Zm9vYmE="},
                                                                  {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, coded] : cases) {
    EXPECT_EQ(to_base64(std::as_bytes(std::span(plain))), coded);
  }
  constexpr std::array<std::byte, 3> kLastLetters = {std::byte{0xfb}, std::byte{0xff},
                                                     std::byte{0xbf}};
  EXPECT_EQ(to_base64(kLastLetters), "+/+/");
}

}  // namespace
}  // namespace tessera
