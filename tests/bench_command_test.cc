// The contract of `tessera bench`: fields of its JSON, counted work, and what it refuses. Speed is
// not judged here.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "bench/model/vision_bench.h"
#include "io/json.h"
#include "tests/support/demo.h"

namespace tessera::test {
namespace {

const std::string kDemoConfig = kDemo + "/config.json";

// The array of results, each with all fields and plausible rates.
std::vector<io::Json> results_of(Arguments arguments) {
  arguments.insert(arguments.begin(), "bench");
  arguments.push_back("--json");
  const io::Json json = io::parse_json(output_of(arguments), "output");
  EXPECT_TRUE(json.is_array());
  for (const io::Json& item : json.items()) {
    const std::string name = item.find("name")->text();
    EXPECT_TRUE(item.find("shape")->is_string()) << name;
    EXPECT_GE(item.find("threads")->as_int64().value(), 1) << name;
    EXPECT_EQ(item.find("isa")->text(), isa_name(active_isa())) << name;
    for (const char* key : {"ms", "gflops", "gbs", "limit_share"}) {
      const io::Json* value = item.find(key);
      EXPECT_TRUE(value != nullptr && value->is_number()) << name << " " << key;
      EXPECT_GE(value->as_double().value(), 0) << name << " " << key;
    }
  }
  return json.items();
}

std::vector<std::string> names(const std::vector<io::Json>& items) {
  std::vector<std::string> out;
  for (const io::Json& item : items) {
    out.push_back(item.find("name")->text());
  }
  return out;
}

void expect_refused(Arguments arguments, std::string_view piece) {
  arguments.insert(arguments.begin(), "bench");
  expect_error(run_program(arguments), 2, {piece});
}

TEST(BenchCommand, Vision) {
  const std::vector<io::Json> items =
      results_of({"vision", "--config", kDemoConfig, "--size", "210x140", "--threads", "1"});
  ASSERT_GE(items.size(), 4u);
  std::vector<std::string> found = names(items);
  found.resize(4);
  EXPECT_EQ(found, (std::vector<std::string>{"vision", "vision.linear", "vision.attention",
                                             "vision.rest"}));
  EXPECT_EQ(items[0].find("shape")->text(), "210x140");
  EXPECT_EQ(items[0].find("threads")->as_int64(), 1);
  EXPECT_GT(items[0].find("ms")->as_double().value(), 0);
  EXPECT_GT(items[0].find("peak_bytes")->as_int64().value(),
            items[0].find("weight_bytes")->as_int64().value());
}

TEST(BenchCommand, Decode) {
  const std::vector<io::Json> items =
      results_of({"decode", "--config", kDemoConfig, "--layers", "2", "--experts", "4", "--context",
                  "64", "--steps", "2", "--threads", "2"});
  ASSERT_GE(items.size(), 1u);
  EXPECT_EQ(items[0].find("name")->text(), "decode.layer");
  const int64_t active = items[0].find("active_bytes")->as_int64().value();
  // Two of four experts in each of two layers stay unread: FP4 with a scale for every 32 codes.
  const int64_t unread = 2 * 2 * 3 * (96 * 256 / 2 + 96 * 256 / 32);
  EXPECT_GT(active, 0);
  EXPECT_LT(active, items[0].find("weight_bytes")->as_int64().value() - unread);
}

TEST(BenchCommand, MachineHasEveryLimit) {
  const std::vector<io::Json> items = results_of({"ops", "no.such.shape"});
  const std::vector<std::string> found = names(items);
  for (const char* name : {"machine.fma", "machine.l2", "machine.dram"}) {
    EXPECT_NE(std::find(found.begin(), found.end(), name), found.end()) << name;
  }
}

TEST(BenchCommand, Refuses) {
  expect_refused({"vision", "--size", "1000x1000"}, "multiples of 14");
  expect_refused({"vision", "--size", "1400x1400"}, "span of at most 1024");
  expect_refused({"vision", "--size", "wide"}, "WIDTHxHEIGHT");
  expect_refused({"vision", "--config", "no/such.json"}, "no/such.json");
  expect_refused({"decode", "--experts", "5"}, "--experts 5: expected 6");
  expect_refused({"decode", "--context", "7"}, "--context 7");
  expect_refused({"decode", "--layers", "64", "--experts", "4096"}, "fewer --layers");
  expect_refused({"decode", "--threads", "-1"}, "--threads -1");
  expect_refused({"ops", "--shapes", "no/such.txt"}, "no/such.txt");
  expect_refused({}, "subcommand is required");
}

// Counts of the released tower, worked out by hand: 2 m n k of every product, 4 n^2 d of attention.
TEST(VisionWork, ReleasedTower) {
  const deepseek_v41::Config config =
      deepseek_v41::read_config(TESSERA_SOURCE_DIR "/share/configs/deepseek_v41_flash.json");
  const bench::VisionWork work = bench::vision_work(config, 72, 72);
  EXPECT_EQ(work.patch_embed, 6242697216.0);
  EXPECT_EQ(work.block_linear, 1391569403904.0 + 2870111895552.0);
  EXPECT_EQ(work.attention, 3522410053632.0);
  EXPECT_EQ(work.aligner, 84557168640.0);
  // A padded column: 30 x 50 patches are 10 x 17 tokens.
  EXPECT_EQ(bench::vision_work(config, 30, 50).total(), 1554799820800.0);
}

}  // namespace
}  // namespace tessera::test
