// tessera plan: the released model on named machines, machines given by options, and what is
// refused. Figures of the release: checkpoint_v41 specification 7.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/str_cat.h"
#include "tests/support/demo.h"
#include "tests/support/program.h"
#include "tests/support/temp_folder.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;
using io::Json;
using Kind = Json::Kind;

const std::string kDesktop = "desktop-64gb-nvme";
const std::string kServer = "server-12-channel";

Json plan(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "plan");
  return json_of(arguments);
}

double number_of(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  return value == nullptr ? -1 : value->as_double().value_or(-1);
}

const Json& placement(const Json& json, std::string_view component) {
  static const Json none;
  for (const Json& item : json.find("placements")->items()) {
    if (item.find("component")->text() == component) {
      return item;
    }
  }
  ADD_FAILURE() << component << " has no place";
  return none;
}

double tokens_per_second(const Json& json) {
  return number_of(json.find("answer")->items().front(), "tokens_per_second");
}

TEST(PlanCommand, DesktopReadsExpertsFromItsDisk) {
  const Json json = plan({"--machine", kDesktop});
  expect_members(json, {{"model", Kind::string},
                        {"bytes", Kind::number},
                        {"machine", Kind::object},
                        {"placements", Kind::array},
                        {"working_memory_bytes", Kind::number},
                        {"context", Kind::number},
                        {"most_context", Kind::number},
                        {"most_context_with_experts", Kind::number},
                        {"answer", Kind::array},
                        {"text", Kind::object},
                        {"picture", Kind::object},
                        {"load_bytes", Kind::number}});
  EXPECT_EQ(integer_of(json, "bytes"), 510'286'023'000);
  EXPECT_EQ(integer_of(json, "most_context"), 1'048'576);
  EXPECT_EQ(integer_of(json, "most_context_with_experts"), 0);
  EXPECT_EQ(text_of(placement(json, "attention"), "where"), "memory");
  EXPECT_EQ(text_of(placement(json, "experts"), "where"), "memory and disk");
  EXPECT_EQ(text_of(placement(json, "engram_tables"), "where"), "disk");
  EXPECT_EQ(text_of(placement(json, "dspark_experts"), "where"), "not read");
  const Json& answer = json.find("answer")->items().front();
  EXPECT_EQ(text_of(*answer.find("step"), "limit"), "disk");
  // What is missing of the experts of a token, and places of table rows.
  const Json& experts = placement(json, "experts");
  const double missing = 1 - number_of(experts, "memory_bytes") / number_of(experts, "bytes");
  EXPECT_NEAR(number_of(*answer.find("step"), "disk_bytes"), missing * 40 * 6 * 18'800'640, 1e3);
  EXPECT_EQ(number_of(*answer.find("step"), "disk_reads"), 2 * 48 + 1);
}

TEST(PlanCommand, ServerHoldsEverything) {
  const Json json = plan({"--machine", kServer});
  EXPECT_EQ(integer_of(json, "most_context_with_experts"), 1'048'576);
  for (const Json& item : json.find("placements")->items()) {
    const std::string where = text_of(item, "where");
    EXPECT_TRUE(where == "memory" || where == "not read") << text_of(item, "component");
  }
  const Json& step = *json.find("answer")->items().front().find("step");
  EXPECT_EQ(number_of(step, "disk_seconds"), 0);
  // 13.0 GB: dense weights, experts, head.
  EXPECT_NEAR(number_of(step, "bytes"), 13.03e9, 0.1e9);
  EXPECT_GT(tokens_per_second(json), tokens_per_second(plan({"--machine", kDesktop})));
}

// Memory is handed out to what is read most first.
TEST(PlanCommand, OptionsReplaceFigures) {
  const auto share_of = [](const Json& json) {
    return number_of(placement(json, "experts"), "memory_bytes");
  };
  const Json small = plan({"--machine", kDesktop, "--memory", "32G"});
  const Json large = plan({"--machine", kDesktop, "--memory", "128G"});
  EXPECT_NEAR(share_of(large) - share_of(small), 96.0 * (1 << 30), 1);
  EXPECT_LT(tokens_per_second(small), tokens_per_second(large));
  EXPECT_EQ(text_of(*small.find("machine")->find("memory_bytes"), "source"), "--memory");
  const Json slow = plan({"--machine", kServer, "--memory-bandwidth", "10GB"});
  // 13 GB at 10 GB/s, and attention.
  EXPECT_NEAR(1 / tokens_per_second(slow), 1.3, 0.1);
  const Json& step = *slow.find("answer")->items().front().find("step");
  EXPECT_EQ(text_of(step, "limit"), "memory bandwidth");
  const Json half = plan({"--machine", kDesktop, "--memory", "32G", "--disk-bandwidth", "1GB"});
  EXPECT_LT(tokens_per_second(half), tokens_per_second(small));
  EXPECT_EQ(integer_of(plan({"--machine", kServer, "--context", "100000"}), "context"), 100'000);
}

TEST(PlanCommand, SizesHaveTheUnitsOfGnuTools) {
  const auto memory = [](const char* text) {
    const Json json = plan({"--machine", kServer, "--memory", text});
    return number_of(*json.find("machine")->find("memory_bytes"), "value");
  };
  EXPECT_EQ(memory("600G"), 600.0 * (1 << 30));
  EXPECT_EQ(memory("600GiB"), 600.0 * (1 << 30));
  EXPECT_EQ(memory("600GB"), 600e9);
  EXPECT_EQ(memory("0.75 TB"), 750e9);
  EXPECT_EQ(memory("700000000000"), 700e9);
  for (const char* wrong : {"G", "600g", "600X", "600GBB", "-1G", "1e3G", "1.2.3G", "99999999T"}) {
    expect_error(run_program({"plan", "--machine", kServer, str_cat("--memory=", wrong)}), 2,
                 {"--memory", wrong});
  }
}

TEST(PlanCommand, LongPromptsTakeLonger) {
  const auto seconds = [](const char* tokens) {
    return number_of(*plan({"--machine", kServer, "--prompt", tokens}).find("text"), "seconds");
  };
  EXPECT_GT(seconds("8000"), 2.5 * seconds("2000"));
  const Json picture = plan({"--machine", kServer, "--picture", "200"});
  EXPECT_EQ(integer_of(*picture.find("picture"), "tokens"), 13 * 14 + 2);
}

TEST(PlanCommand, TextNamesPlacesReasonsAndPredictions) {
  const std::string text = output_of({"plan", "--machine", kDesktop});
  for (const char* piece : {"288777830400", "not read: draft stages", "tokens/s at token 1024",
                            "what binds: disk", "first token with a picture of 994 tokens"}) {
    EXPECT_NE(text.find(piece), std::string::npos) << piece << " in\n" << text;
  }
}

TEST(PlanCommand, Refusals) {
  const TempFolder folder;
  const std::string other = folder.path() + "/config.json";
  std::ofstream(other) << R"({"model_type": "qwen3", "hidden_size": 64})";
  expect_error(run_program({"plan", other}), 2, {other, "no DeepSeek-V4.1 configuration"});
  expect_error(run_program({"plan", folder.path() + "/nowhere"}), 2, {"nowhere"});
  expect_error(run_program({"plan", "--machine", "laptop"}), 2, {"laptop", "--machine"});
  expect_error(run_program({"plan", "--machine", kServer, "--memory", "lots"}), 2,
               {"--memory", "'lots'", "64G"});
  expect_error(run_program({"plan", "--machine", kServer, "--memory", "0"}), 2, {"--memory"});
  expect_error(run_program({"plan", "--machine", kServer, "--context", "2000000"}), 2,
               {"--context 2000000", "1048576"});
  expect_error(run_program({"plan", "--machine", kServer, "--threads", "0"}), 2, {"--threads"});
  const std::string machine = folder.path() + "/machine.json";
  std::ofstream(machine) << R"({"name": "half a machine", "threads": {"value": 4}})";
  expect_error(run_program({"plan", "--machine", machine}), 2, {machine, "threads", "source"});
}

// The demo model's file is too small to time reads of.
}  // namespace
}  // namespace tessera::test
