#include "server/api_keys.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "base/error.h"

namespace tessera::server {
namespace {

std::optional<std::string> tenant(const ApiKeys& keys, const std::string& header) {
  return keys.tenant_of(&header);
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ApiKeys, EachKeyIsATenant) {
  ApiKeys keys;
  EXPECT_TRUE(keys.is_empty());
  keys.add_lines("# comment\n\n  alice   sk-0123456789abcdef \r\nsk-fedcba9876543210\n", "keys");
  EXPECT_FALSE(keys.is_empty());
  EXPECT_EQ(tenant(keys, "Bearer sk-0123456789abcdef"), "alice");
  EXPECT_EQ(tenant(keys, "bearer  sk-fedcba9876543210 "), "key-2");
}

TEST(ApiKeys, NothingElseOpensTheDoor) {
  ApiKeys keys;
  keys.add_lines("alice sk-0123456789abcdef", "keys");
  EXPECT_EQ(keys.tenant_of(nullptr), std::nullopt);
  for (const char* header :
       {"", "Bearer", "Bearer ", "Basic sk-0123456789abcdef", "sk-0123456789abcdef",
        "Bearer sk-0123456789abcde", "Bearer sk-0123456789abcdeff", "Bearer sk-0123456789abcdeF",
        "Bearer alice", "Bearer alice sk-0123456789abcdef"}) {
    EXPECT_EQ(tenant(keys, header), std::nullopt) << header;
  }
}

TEST(ApiKeys, BadLinesAreNamedWithoutTheKey) {
  ApiKeys keys;
  const std::string shorter = refusal([&] { keys.add_lines("\nbob secret", "keys.txt"); });
  EXPECT_EQ(shorter,
            "keys.txt: line 2: a key has 6 characters, expected 16 to 512 of visible ASCII");
  EXPECT_NE(refusal([&] { keys.add_lines("bob 0123456789abcdef\xc3\xa4", "k"); }), "");
  keys.add_lines("bob 0123456789abcdef", "k");
  EXPECT_NE(refusal([&] { keys.add_lines("bob fedcba9876543210", "k"); }).find("'bob' appears"),
            std::string::npos);
  EXPECT_NE(refusal([&] { keys.add_file("/nonexistent/keys"); }), "");
}

}  // namespace
}  // namespace tessera::server
