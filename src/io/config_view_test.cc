#include "io/config_view.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera::io {
namespace {

const char* const kText = R"({
  "hidden_size": 72, "eps": 1e-06, "theta": 10000, "tied": false, "type": "qwen3_vl",
  "list": [1, 2, 3], "bad_list": [1, 2.5], "absent": null, "extra": 1, "编码": 2,
  "vision": {"depth": 4, "unused": {}}, "big": 9007199254740993
})";

template <typename Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    return error.what();
  }
  return "no error";
}

TEST(ConfigView, ReadsEachType) {
  const Json json = parse_json(kText, "config.json");
  const ConfigView view(json, "config.json");
  EXPECT_EQ(view.integer("hidden_size", 1, 72), 72);
  EXPECT_EQ(view.integer("big", 0, INT64_MAX), 9007199254740993);
  EXPECT_EQ(view.number("eps"), 1e-6);
  EXPECT_EQ(view.number("theta"), 10000.0);
  EXPECT_FALSE(view.boolean_or("tied", true));
  EXPECT_EQ(view.text("type"), "qwen3_vl");
  EXPECT_EQ(view.integers("list", 1, 3), (std::vector<int64_t>{1, 2, 3}));
  const std::optional<ConfigView> vision = view.child("vision");
  ASSERT_TRUE(vision.has_value());
  EXPECT_EQ(vision->integer("depth", 1, 100), 4);
  EXPECT_EQ(vision->where(), "config.json: vision");
  EXPECT_EQ(&view.object(), &json);
}

TEST(ConfigView, DefaultsStandForAbsentAndNull) {
  const Json json = parse_json(kText, "config.json");
  const ConfigView view(json, "config.json");
  for (const char* key : {"none", "absent"}) {
    EXPECT_EQ(view.integer_or(key, 0, 9, 5), 5);
    EXPECT_EQ(view.number_or(key, 0.5), 0.5);
    EXPECT_TRUE(view.boolean_or(key, true));
    EXPECT_EQ(view.text_or(key, "x"), "x");
    EXPECT_FALSE(view.child(key).has_value());
    EXPECT_FALSE(view.has(key));
  }
  EXPECT_TRUE(view.has("eps"));
  EXPECT_EQ(view.text_or("type", "x"), "qwen3_vl");
  EXPECT_EQ(view.integer_or("hidden_size", 0, 100, 5), 72);
}

TEST(ConfigView, MessagesNameKeyExpectedAndFound) {
  const Json json = parse_json(kText, "config.json");
  const ConfigView view(json, "config.json");
  EXPECT_EQ(refusal([&] { view.integer("hidden_size", 1, 64); }),
            "config.json: 'hidden_size' must be an integer from 1 to 64, found 72");
  EXPECT_EQ(refusal([&] { view.integer("eps", 1, 64); }),
            "config.json: 'eps' must be an integer from 1 to 64, found 1e-06");
  EXPECT_EQ(refusal([&] { view.integer_or("type", 1, 64, 2); }),
            "config.json: 'type' must be an integer from 1 to 64, found the string 'qwen3_vl'");
  EXPECT_EQ(refusal([&] { view.integer("none", 1, 64); }),
            "config.json: 'none' is missing; it is needed here");
  EXPECT_EQ(refusal([&] { view.text("absent"); }),
            "config.json: 'absent' is null; it is needed here");
  EXPECT_EQ(refusal([&] { view.number("type"); }),
            "config.json: 'type' must be a number, found the string 'qwen3_vl'");
  EXPECT_EQ(refusal([&] { view.boolean_or("theta", true); }),
            "config.json: 'theta' must be true or false, found 10000");
  EXPECT_EQ(refusal([&] { view.text_or("list", ""); }),
            "config.json: 'list' must be a string, found an array of 3 items");
  EXPECT_EQ(refusal([&] { view.integers("type", 0, 1); }),
            "config.json: 'type' must be an array of integers, found the string 'qwen3_vl'");
  EXPECT_EQ(refusal([&] { view.integers("bad_list", 0, 9); }),
            "config.json: 'bad_list[1]' must be an integer from 0 to 9, found 2.5");
  EXPECT_EQ(refusal([&] { view.child("list"); }),
            "config.json: 'list' must be an object, found an array of 3 items");
  EXPECT_EQ(refusal([&] { view.child("vision")->integer("depth", 5, 6); }),
            "config.json: vision: 'depth' must be an integer from 5 to 6, found 4");
  EXPECT_EQ(refusal([&] { ConfigView(json.members()[0].second, "config.json: x"); }),
            "config.json: x: must be a JSON object, found 72");
}

TEST(ConfigView, ReportsKeysThatWereNotRead) {
  const Json json = parse_json(kText, "config.json");
  const ConfigView view(json, "config.json");
  view.integer("hidden_size", 1, 100);
  view.number("eps");
  view.number_or("theta", 1);
  view.boolean_or("tied", true);
  view.text("type");
  view.integers("list", 0, 9);
  view.ignore("bad_list");
  view.ignore("not even there");
  view.has("absent");
  const std::optional<ConfigView> vision = view.child("vision");
  vision->integer("depth", 1, 100);
  EXPECT_EQ(view.unread_keys(), (std::vector<std::string>{"extra", "编码", "big"}));
  EXPECT_EQ(vision->unread_keys(), std::vector<std::string>{"unused"});
}

}  // namespace
}  // namespace tessera::io
