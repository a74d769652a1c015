// Plans of the released model on machines whose figures make the expected numbers easy.
#include "runtime/machine_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/str_cat.h"
#include "io/json.h"
#include "runtime/machine_disk.h"
#include "runtime/working_memory.h"

namespace tessera {
namespace {

using deepseek_v41::Config;
using deepseek_v41::CostModel;

const Config& released() {
  static const Config config =
      deepseek_v41::read_config(TESSERA_SOURCE_DIR "/share/configs/deepseek_v41_flash.json");
  return config;
}

const CostModel& released_cost() {
  static const CostModel model(released());
  return model;
}

// Kernels without any limit to speak of: the memory binds, unless a test says otherwise.
Machine simple_machine(double memory_bytes) {
  Machine m;
  m.name = "simple";
  m.threads = {1, "test"};
  m.memory_bytes = {memory_bytes, "test"};
  m.memory_bandwidth = {10e9, "test"};
  m.disk_bandwidth = {1e9, "test"};
  m.disk_reads_per_second = {1e3, "test"};
  for (KernelSpeed& kernel : m.kernels) {
    kernel.points = {{1, 1e18}};
  }
  return m;
}

TEST(KernelSpeed, TimeIsLinearInRowsBetweenPoints) {
  const KernelSpeed speed = {{{1, 10e9}, {11, 55e9}}};
  // One row of 1 GFLOP takes 0.1 s, eleven take 0.2 s.
  EXPECT_DOUBLE_EQ(speed.seconds(1, 1e9), 0.1);
  EXPECT_DOUBLE_EQ(speed.seconds(6, 6e9), 0.15);
  EXPECT_DOUBLE_EQ(speed.seconds(11, 11e9), 0.2);
  EXPECT_DOUBLE_EQ(speed.seconds(22, 22e9), 0.4);
  EXPECT_DOUBLE_EQ(speed.seconds(0.5, 0.5e9), 0.1);
  EXPECT_EQ(speed.seconds(0, 0), 0);
}

TEST(MachinePlan, AllInMemoryIsBytesOverBandwidth) {
  const Machine machine = simple_machine(1e12);
  const MachinePlan plan = make_plan(released_cost(), machine, {});
  const StepTime& time = plan.decode.front().time;
  EXPECT_EQ(time.disk_seconds, 0);
  EXPECT_EQ(time.limit(), "memory bandwidth");
  const deepseek_v41::StepWork work = released_cost().decode(1024);
  EXPECT_NEAR(time.seconds(), work.matrix_bytes() / 10e9, 1e-6);
  EXPECT_EQ(plan.most_context_all, released().max_positions);
}

TEST(MachinePlan, WhatBindsIsWhatTakesLongest) {
  Machine machine = simple_machine(1e12);
  machine.speed(Kernel::fp4).points = {{1, 1e9}};
  const StepTime slow_fp4 =
      step_time(released_cost().decode(0), machine, {});  // no placements: all in memory
  EXPECT_EQ(slow_fp4.limit(), "kernels");
  // 40 layers of 6 experts of 3 matrices.
  EXPECT_NEAR(slow_fp4.product_seconds, 40 * 6 * 3 * 2.0 * 2304 * 5120 / 1e9, 1e-6);
  machine.speed(Kernel::attention).points = {{1, 1e5}};
  EXPECT_EQ(step_time(released_cost().decode(0), machine, {}).limit(), "attention");
}

TEST(MachinePlan, ExpertsGetWhatIsLeft) {
  const Machine machine = simple_machine(60e9);
  const MachinePlan plan = make_plan(released_cost(), machine, {});
  int64_t given = 0;
  double expert_share = 0;
  for (const Placement& placement : plan.placements) {
    given += placement.memory_bytes;
    if (placement.component == "experts") {
      expert_share = placement.share();
      EXPECT_EQ(placement.where, "memory and disk");
    } else if (placement.use == PartUse::every_token || placement.use == PartUse::picture) {
      EXPECT_EQ(placement.where, "memory") << placement.component;
    } else if (placement.use != PartUse::working_memory) {
      EXPECT_EQ(placement.memory_bytes, 0) << placement.component;
    }
  }
  EXPECT_EQ(given, 60'000'000'000);
  const StepTime& time = plan.decode.front().time;
  EXPECT_NEAR(time.disk_bytes, (1 - expert_share) * 40 * 6 * 18'800'640, 1);
  EXPECT_EQ(time.disk_reads, 2 * 48 + 1);
  EXPECT_NEAR(time.disk_seconds, time.disk_bytes / 1e9 + 97e-3, 1e-9);
}

TEST(MachinePlan, LargestContextFillsTheMemory) {
  // Room for what every token reads and for 1 GiB of caches and buffers.
  const double dense = 8'522'123'648;
  const Machine machine = simple_machine(dense + (1 << 30));
  PlanRequest request;
  request.engine.context = 1000;
  const MachinePlan plan = make_plan(released_cost(), machine, request);
  EXPECT_EQ(plan.most_context_all, 0);
  ASSERT_GT(plan.most_context, 1000);
  ASSERT_LT(plan.most_context, released().max_positions);
  EngineOptions options;
  options.threads = 1;
  options.context = plan.most_context;
  EXPECT_LE(working_memory(released(), options).bytes(), 1 << 30);
  options.context = plan.most_context + 64 * 8;  // at least a page more
  EXPECT_GT(working_memory(released(), options).bytes(), 1 << 30);
}

TEST(MachinePlan, AnUnknownDiskIsRefusedOnlyWhereItCounts) {
  Machine machine = simple_machine(1e12);
  machine.disk_bandwidth = {};
  EXPECT_NO_THROW(make_plan(released_cost(), machine, {}));
  machine.memory_bytes.value = 60e9;
  EXPECT_THROW(make_plan(released_cost(), machine, {}), Error);
}

TEST(MachinePlan, PicturesAreSquaresOfTheTokensAskedFor) {
  PlanRequest request;
  request.most_picture = 602;  // 24 rows of 24 tokens and a line end, start, end
  const MachinePlan plan = make_plan(released_cost(), simple_machine(1e12), request);
  EXPECT_EQ(plan.picture_tokens, 602);
  EXPECT_EQ(plan.picture_patches, 5184);
  EXPECT_GT(plan.picture_prompt.flops, plan.prompt.flops);
}

TEST(Machine, ShippedFilesAreRead) {
  for (const char* name : {"server-12-channel", "desktop-64gb-nvme"}) {
    const Machine m = read_machine(str_cat(TESSERA_SOURCE_DIR "/share/machines/", name, ".json"));
    EXPECT_FALSE(m.name.empty());
    for (const Figure* figure : {&m.threads, &m.memory_bytes, &m.memory_bandwidth,
                                 &m.disk_bandwidth, &m.disk_reads_per_second}) {
      EXPECT_TRUE(figure->is_known()) << name;
      EXPECT_FALSE(figure->source.empty()) << name;
    }
  }
}

const char kMachine[] = R"({
  "name": "small", "threads": {"value": 4, "source": "a"},
  "memory_bytes": {"value": 8e9, "source": "b"}, "memory_bandwidth": {"value": 2e10, "source": "c"},
  "disk_bandwidth": {"value": 1e9, "source": "d"},
  "disk_reads_per_second": {"value": 1e5, "source": "e"},
  "kernels": {"source": "f", "gflops_of_one_thread": {
    "fp4": {"1": 10, "240": 70}, "fp8": {"1": 10}, "bf16": {"1": 8, "240": 80},
    "attention": {"1": 20}, "index_scores": {"1": 20}, "picture_attention": {"480": 60}}}})";

Machine parse(const std::string& text) {
  return parse_machine(io::parse_json(text, "small.json"), "small.json");
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(Machine, FilesHoldFiguresOfOneThread) {
  Machine m = parse(kMachine);
  EXPECT_EQ(m.speed(Kernel::fp4).points.size(), 2U);
  EXPECT_EQ(m.speed(Kernel::fp4).most(), 4 * 70e9);
  m.scale_threads(8, "test");
  EXPECT_EQ(m.speed(Kernel::fp4).most(), 8 * 70e9);
  m.scale_flops(320e9, "test");
  EXPECT_EQ(m.speed(Kernel::bf16).most(), 320e9);
  EXPECT_EQ(m.speed(Kernel::fp4).most(), 280e9);
}

TEST(Machine, WrongFilesAreRefused) {
  const std::pair<const char*, const char*> changes[] = {
      {R"("value": 4,)", R"("value": 0,)"},
      {R"(, "source": "e")", ""},
      {R"("disk_bandwidth")", R"("disc_bandwidth")"},
      {R"("240": 70)", R"("1": 70)"},
      {R"("240": 70)", R"("many": 70)"},
      {R"("fp8": {"1": 10})", R"("fp8": {})"},
      {R"("fp8": {"1": 10})", R"("fp8": {"1": -10})"},
      {R"("index_scores")", R"("index")"},
      {R"("name": "small")", R"("name": "small", "colour": "grey")"},
  };
  EXPECT_NO_THROW(parse(kMachine));
  for (const auto& [from, to] : changes) {
    EXPECT_THROW(parse(replaced(kMachine, from, to)), Error) << to;
  }
}

TEST(MeasureDisk, SmallFilesTellNothing) {
  const DiskSpeed speed = measure_disk(TESSERA_SOURCE_DIR "/models/demo/config.json", 1);
  EXPECT_EQ(speed.bytes_per_second, 0);
  EXPECT_EQ(speed.reads_per_second, 0);
  EXPECT_THROW(measure_disk(TESSERA_SOURCE_DIR "/no/such/file", 1), Error);
}

// What an engine says once it is open, but for the scratch memory.
TEST(WorkingMemory, IsThatOfAnOpenEngine) {
  EngineOptions options;
  options.model = TESSERA_SOURCE_DIR "/models/demo";
  options.threads = 2;
  options.context = 2000;
  options.prefix_cache_bytes = 4 << 20;
  const std::unique_ptr<Engine> engine = Engine::open(options);
  const MemoryPlan open = engine->memory_plan();
  const MemoryPlan planned =
      working_memory(deepseek_v41::read_config(options.model + "/config.json"), options);
  for (const MemoryPlan::Part& part : open.parts) {
    const auto same = std::find_if(
        planned.parts.begin(), planned.parts.end(),
        [&](const MemoryPlan::Part& candidate) { return candidate.name == part.name; });
    ASSERT_NE(same, planned.parts.end()) << part.name;
    if (part.name != "scratch") {
      EXPECT_EQ(same->bytes, part.bytes) << part.name;
    }
  }
}

// A prompt that fills the context in steps of all rows.
TEST(WorkingMemory, ScratchIsThatOfTheLargestStep) {
  EngineOptions options;
  options.model = TESSERA_SOURCE_DIR "/models/demo";
  options.threads = 2;
  options.context = 3000;
  options.step_rows = 256;
  const Config config = deepseek_v41::read_config(options.model + "/config.json");
  const std::unique_ptr<Engine> engine = Engine::open(options);
  Request request;
  std::string text;
  for (int i = 0; i < 2200; ++i) {
    text += "a ";
  }
  request.raw_prompt = text;
  request.is_plain_text = true;
  request.max_tokens = 1;
  const Result result = engine->generate(request);
  const MemoryPlan open = engine->memory_plan();
  const auto scratch = std::find_if(open.parts.begin(), open.parts.end(),
                                    [](const auto& part) { return part.name == "scratch"; });
  const double planned =
      static_cast<double>(scratch_bytes(config, 256, result.prompt_tokens, options.threads));
  const double used = static_cast<double>(scratch->bytes);
  EXPECT_GT(planned, 0.6 * used);
  EXPECT_LT(planned, 1.6 * used);
}

}  // namespace
}  // namespace tessera
