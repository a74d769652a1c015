#include "trace/stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "trace/reader.h"
#include "trace/test_files.h"

namespace tessera::trace {
namespace {

const std::string kShared = TESSERA_SOURCE_DIR "/share/stages/deepseek_v41.json";

StageMap map_of(std::string_view text) { return StageMap(io::parse_json(text, "map"), "map"); }

constexpr std::string_view kSmall = R"({"format": "stages/1", "name": "small", "stages": [
  {"tap": "ids", "kind": "integers"},
  {"each": "k", "stages": [
    {"tap": "c{k}.embed", "grid": "bf16", "parents": ["ids", "image{*}.out"]},
    {"each": "l", "stages": [
      {"tap": "c{k}.layers.{l}.attn", "parents": ["c{k}.layers.{l-1}|c{k}.embed"]},
      {"tap": "c{k}.layers.{l}.topk", "kind": "picks", "scores": "c{k}.layers.{l}.scores"},
      {"tap": "c{k}.layers.{l}", "parents": ["c{k}.layers.{l}.attn"]}
    ]},
    {"tap": "c{k}.norm", "parents": ["c{k}.layers.{last l}"]}
  ]}]})";

TEST(Stages, OrderIsThatOfTheComputation) {
  const StageMap map = map_of(kSmall);
  const std::vector<std::string> expected = {
      "ids",         "c0.embed",    "c0.layers.0.attn", "c0.layers.0.topk",
      "c0.layers.0", "c0.layers.1", "c0.layers.2",      "c0.layers.10",
      "c0.norm",     "c1.embed",    "c1.norm",          "c10.embed"};
  std::vector<std::string> names(expected.rbegin(), expected.rend());
  std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return map.match(a).value().order < map.match(b).value().order;
  });
  EXPECT_EQ(names, expected);
}

TEST(Stages, MatchesWholeNamesWithEqualNumbers) {
  const StageMap map = map_of(kSmall);
  for (const char* name : {"", "id", "idsx", "c.embed", "c-1.embed", "c0.embed.x", "c0.layers.",
                           "c0.layers.x", "c0.layers.1.atn", "cc0.embed"}) {
    EXPECT_FALSE(map.match(name).has_value()) << name;
  }
  const StageMatch match = map.match("c12.layers.3.attn").value();
  EXPECT_EQ(match.numbers.at("k"), 12);
  EXPECT_EQ(match.numbers.at("l"), 3);
  const StageMap twice = map_of(R"({"format": "stages/1", "stages": [{"tap": "a{n}.b{n}"}]})");
  EXPECT_TRUE(twice.match("a1.b1").has_value());
  EXPECT_FALSE(twice.match("a1.b2").has_value());
}

TEST(Stages, ParentsAreTheNearestThatAreThere) {
  const StageMap map = map_of(kSmall);
  const std::vector<std::string_view> taps = {
      "ids",        "c0.embed",   "c0.layers.0",      "c0.layers.1",
      "image0.out", "image2.out", "c0.layers.0.attn", "c0.norm"};
  const auto parents = [&](std::string_view name) {
    return map.parents(
        map.match(name).value(),
        [&](std::string_view tap) {
          return std::find(taps.begin(), taps.end(), tap) != taps.end();
        },
        taps);
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(parents("c0.embed"), (Names{"ids", "image0.out", "image2.out"}));
  EXPECT_EQ(parents("c0.layers.0.attn"), Names{"c0.embed"});
  EXPECT_EQ(parents("c0.layers.1.attn"), Names{"c0.layers.0"});
  EXPECT_EQ(parents("c0.layers.3.attn"), Names{"c0.embed"});  // layer 2 is in no trace
  EXPECT_EQ(parents("c0.norm"), Names{"c0.layers.1"});
  EXPECT_EQ(parents("c0.layers.1"), Names{});
  EXPECT_EQ(map.scores(map.match("c0.layers.7.topk").value()), "c0.layers.7.scores");
}

TEST(Stages, WrongMapsAreRefused) {
  for (const char* text :
       {"[]", "{}", R"({"format": "stages/2", "stages": []})", R"({"format": "stages/1"})",
        R"({"format": "stages/1", "stages": [7]})", R"({"format": "stages/1", "stages": [{}]})",
        R"({"format": "stages/1", "stages": [{"tap": "a", "kind": "odd"}]})",
        R"({"format": "stages/1", "stages": [{"tap": "a", "grid": "f16"}]})",
        R"({"format": "stages/1", "stages": [{"tap": "a", "parents": "b"}]})",
        R"({"format": "stages/1", "stages": [{"each": "k", "stages": 1}]})"}) {
    EXPECT_NE(error_of([&] { map_of(text); }), "") << text;
  }
}

// Every tap of every golden trace has a stage, and its order is that of the file.
TEST(Stages, TheSharedMapCoversTheGoldens) {
  const StageMap map = StageMap::load(kShared);
  int traces = 0;
  for (const auto& entry : std::filesystem::directory_iterator(golden("v41-tiny/cases"))) {
    if (entry.path().extension() != ".safetensors") {
      continue;
    }
    ++traces;
    const TraceFile trace(entry.path().string());
    for (const std::string_view tap : trace.taps()) {
      EXPECT_TRUE(map.match(tap).has_value()) << entry.path() << ": " << tap;
    }
  }
  EXPECT_GT(traces, 10);
}

}  // namespace
}  // namespace tessera::trace
