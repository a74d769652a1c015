#include "io/sha256.h"

#include <gtest/gtest.h>

#include <string_view>

namespace tessera::io {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// FIPS 180-4 example values.
TEST(Sha256, StandardExamples) {
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex(bytes_of("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, AMillionBytesInUnevenPieces) {
  const std::string text(1'000'000, 'a');
  Sha256 sum;
  size_t start = 0;
  for (size_t bytes = 0; start < text.size(); ++bytes) {
    const std::string_view piece = std::string_view(text).substr(start, bytes);
    sum.update(bytes_of(piece));
    start += piece.size();
  }
  EXPECT_EQ(sum.hex(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace tessera::io
