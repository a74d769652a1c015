// What tests of the API share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/text.h"
#include "server/api_answer.h"
#include "server/api_call.h"
#include "server/api_error.h"

namespace tessera::server::test {

// Tokens 0 to 9 of a vocabulary; the bytes of every other id are empty.
inline std::string_view token_bytes(int32_t id) {
  constexpr std::string_view kTokens[] = {"Hel", "lo",       " ",  "\xe4\xbd", "\xa0",
                                          "好",  "</think>", "\n", "<end>",    "think"};
  return id >= 0 && id < 10 ? kTokens[id] : std::string_view();
}

inline AnswerForm form() {
  AnswerForm made;
  made.request_id = "r1";
  made.created = 1700000000;
  made.model = "m";
  made.fingerprint = "fp";
  made.token_bytes = token_bytes;
  return made;
}

// "STATUS PARAM | MESSAGE" of the ApiError that `parse` throws; "accepted" if it throws none.
template <typename Parse>
std::string refusal(Parse parse) {
  try {
    parse();
    return "accepted";
  } catch (const ApiError& error) {
    EXPECT_TRUE(is_valid_utf8(error.message()));
    EXPECT_EQ(error.message().find('\n'), std::string::npos) << error.message();
    return std::to_string(error.status()) + " " + error.param() + " | " + error.message();
  }
}

}  // namespace tessera::server::test
