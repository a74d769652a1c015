#include "server/api_pictures.h"

#include <gtest/gtest.h>

#include <string>

#include "server/api_error.h"
#include "server/api_wire.h"

namespace tessera::server {
namespace {

std::string refused(const std::string& body) {
  try {
    parse_plan_body(body, {});
  } catch (const ApiError& error) {
    return error.message();
  }
  return "";
}

TEST(ApiPictures, PicturesOfAListAndOfMessages) {
  const PlanCall list = parse_plan_body(
      R"({"images":["https://a.example/1.png",{"url":"https://a.example/2.png","detail":"low"}],)"
      R"("preview":true})",
      {});
  ASSERT_EQ(list.pictures.size(), 2U);
  EXPECT_EQ(list.pictures[0].value, "https://a.example/1.png");
  EXPECT_EQ(list.pictures[1].detail, "low");
  EXPECT_TRUE(list.has_preview);
  const PlanCall chat =
      parse_plan_body(R"({"messages":[{"role":"user","content":[{"type":"text","text":"图"},)"
                      R"({"type":"image_url","image_url":{"url":"https://a.example/3.png"}}]}]})",
                      {});
  ASSERT_EQ(chat.pictures.size(), 1U);
  EXPECT_EQ(chat.pictures[0].value, "https://a.example/3.png");
  EXPECT_FALSE(chat.has_preview);
}

TEST(ApiPictures, WhatIsWrongIsNamed) {
  EXPECT_EQ(refused("{}"), "images: missing, expected a list of URLs (or messages)");
  EXPECT_EQ(refused(R"({"images":[]})"), "images: no picture in it, expected at least one");
  EXPECT_NE(refused(R"({"images":[5]})").find("images[0]"), std::string::npos);
  EXPECT_NE(refused(R"({"images":"x"})").find("a list of URLs"), std::string::npos);
  EXPECT_NE(refused(R"({"images":["x"],"messages":[]})").find("beside messages"),
            std::string::npos);
  EXPECT_NE(refused(R"({"images":["/etc/passwd"]})"), "");
  EXPECT_NE(refused(R"({"images":["file:///etc/passwd"]})"), "");
}

TEST(ApiPictures, ThePlanAsJson) {
  PicturePlan plan;
  plan.width = 700;
  plan.height = 420;
  plan.token_rows = 5;
  plan.token_columns = 8;
  plan.span_tokens = 47;
  plan.policy = "reference";
  plan.preview = {std::byte{'a'}, std::byte{'b'}, std::byte{'c'}};
  EXPECT_EQ(wire_text(plan_json({plan, plan})),
            R"({"images":[{"source":[700,420],"content":[0,0,0,0],"canvas":[0,0],"patches":[0,0],)"
            R"("tokens":[5,8],"span_tokens":47,"policy":"reference","notices":[],)"
            R"("preview":"data:image/png;base64,YWJj"},{"source":[700,420],"content":[0,0,0,0],)"
            R"("canvas":[0,0],"patches":[0,0],"tokens":[5,8],"span_tokens":47,)"
            R"("policy":"reference","notices":[],"preview":"data:image/png;base64,YWJj"}],)"
            R"("total_tokens":94})");
}

}  // namespace
}  // namespace tessera::server
