#include "server/api_error.h"

#include <gtest/gtest.h>

#include <new>
#include <set>

#include "base/error.h"
#include "runtime/engine.h"

namespace tessera::server {
namespace {

std::string body_of(const std::exception& error, const FailurePlace& place = {}) {
  const ApiError answer = api_error_of(error, place);
  return std::to_string(answer.status()) + " " + error_body(answer);
}

TEST(ApiError, BodyHasFourMembers) {
  const ApiError error(ApiFault::unknown_model, "no model '\xe5\x9b\xbe\"' here", "model");
  EXPECT_EQ(error.status(), 404);
  EXPECT_EQ(error_body(error),
            R"({"error":{"message":"no model '图\"' here","type":"invalid_request_error",)"
            R"("param":"model","code":"model_not_found"}})");
  EXPECT_EQ(error_body(ApiError(ApiFault::invalid_request, "bad")),
            R"({"error":{"message":"bad","type":"invalid_request_error","param":null,)"
            R"("code":null}})");
}

TEST(ApiError, StatusOfEveryFault) {
  const std::vector<std::pair<ApiFault, int>> statuses = {
      {ApiFault::invalid_request, 400}, {ApiFault::unsupported, 400},
      {ApiFault::far_side, 400},        {ApiFault::invalid_key, 401},
      {ApiFault::unknown_path, 404},    {ApiFault::unknown_model, 404},
      {ApiFault::wrong_method, 405},    {ApiFault::timed_out, 408},
      {ApiFault::body_too_large, 413},  {ApiFault::wrong_media_type, 415},
      {ApiFault::queue_full, 429},      {ApiFault::internal, 500},
      {ApiFault::draining, 503},        {ApiFault::context_exceeded, 400}};
  EXPECT_EQ(statuses.size(), static_cast<size_t>(kApiFaults));
  std::set<std::string_view> codes;
  for (const auto& [fault, status] : statuses) {
    EXPECT_EQ(form_of(fault).status, status);
    EXPECT_FALSE(form_of(fault).type.empty());
    EXPECT_TRUE(codes.insert(form_of(fault).code).second) << form_of(fault).code;
  }
}

TEST(ApiError, WhatTheEngineThrows) {
  EXPECT_EQ(body_of(Error(ErrorCode::bad_request, "the prompt is empty")),
            R"(400 {"error":{"message":"the prompt is empty","type":"invalid_request_error",)"
            R"("param":null,"code":null}})");
  EXPECT_EQ(body_of(Error(ErrorCode::unsupported, "image 2: HEIC is not read")),
            R"(400 {"error":{"message":"image 2: HEIC is not read",)"
            R"("type":"invalid_request_error","param":null,"code":"unsupported"}})");
  EXPECT_EQ(body_of(Error(ErrorCode::far_side, "image 2: status 404")),
            R"(400 {"error":{"message":"image 2: status 404","type":"invalid_request_error",)"
            R"("param":null,"code":"image_unavailable"}})");
}

TEST(ApiError, FaultsOfTheMachineSayWhereButNotWhat) {
  const std::string expected =
      R"(500 {"error":{"message":"the server failed at the stage 'generation'; its log tells )"
      R"(more under request r7","type":"server_error","param":null,"code":"internal_error"}})";
  const FailurePlace place = {.request_id = "r7", .stage = "generation"};
  for (const ErrorCode code : {ErrorCode::bad_file, ErrorCode::io, ErrorCode::out_of_memory}) {
    EXPECT_EQ(body_of(Error(code, "/secret/path: read error"), place), expected);
  }
  EXPECT_EQ(body_of(std::bad_alloc(), place), expected);
  EXPECT_EQ(body_of(std::runtime_error("/secret/path"), place), expected);
}

TEST(ApiError, QueueIsFullOrCloses) {
  const Error error(ErrorCode::queue_full, "9 requests are waiting or running, at most 9");
  ApiError answer = api_error_of(error, {.retry_after_s = 3});
  EXPECT_EQ(answer.status(), 429);
  EXPECT_EQ(answer.retry_after_s, 3);
  EXPECT_EQ(answer.message(), error.what());
  EXPECT_EQ(form_of(answer.fault()).type, "rate_limit_error");
  answer = api_error_of(error, {.is_draining = true, .retry_after_s = 5});
  EXPECT_EQ(answer.status(), 503);
  EXPECT_EQ(answer.retry_after_s, 5);
  EXPECT_EQ(api_error_of(Error(ErrorCode::cancelled, "interrupted"), {}).status(), 503);
}

TEST(ApiError, IsKeptAsItIs) {
  ApiError error(ApiFault::queue_full, "later", "p");
  error.retry_after_s = 2;
  const ApiError again = api_error_of(error, {.stage = "prompt"});
  EXPECT_EQ(error_body(again), error_body(error));
  EXPECT_EQ(again.retry_after_s, 2);
  EXPECT_STREQ(again.what(), "later");
}

TEST(ApiError, FieldOfABodyBecomesTheParam) {
  struct Row {
    std::string from, message, param;
  };
  for (const Row& row : std::vector<Row>{
           {"request.messages[0].role: unknown role 'x'", "messages[0].role: unknown role 'x'",
            "messages[0].role"},
           {"request: 'messages' is missing, expected a list",
            "'messages' is missing, expected a list", "messages"},
           {"request: the last message is to be continued", "the last message is to be continued",
            ""},
           {"request: 'messages", "'messages", ""},
           {"request: it says: no", "it says: no", ""},
           {"request.", "", ""},
           {"requests: 5", "requests: 5", ""},
           {"image 1: not found", "image 1: not found", ""},
           {"top_p 3: expected 0 to 1", "top_p 3: expected 0 to 1", ""},
       }) {
    const ApiError error = error_of_body(row.from);
    EXPECT_EQ(error.message(), row.message);
    EXPECT_EQ(error.param(), row.param) << row.from;
  }
}

}  // namespace
}  // namespace tessera::server
