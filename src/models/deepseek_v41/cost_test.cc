// Numbers of the release: checkpoint_v41 specification 7; of its layers: half prefill, section 9.
#include "models/deepseek_v41/cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "models/deepseek_v41/inventory.h"
#include "models/deepseek_v41/state.h"
#include "models/deepseek_v41/step.h"

namespace tessera::deepseek_v41 {
namespace {

Config released() {
  return read_config(TESSERA_SOURCE_DIR "/share/configs/deepseek_v41_flash.json");
}

TEST(CostModel, StoredBytesOfTheRelease) {
  const CostModel model(released());
  const std::pair<const char*, int64_t> expected[] = {
      {"experts", 288'777'830'400},  {"engram_tables", 202'758'032'400},
      {"attention", 5'069'721'600},  {"shared_experts", 1'416'960'000},
      {"embedding", 1'323'827'200},  {"head", 1'323'827'200},
      {"vision_tower", 823'685'120}, {"dspark_experts", 7'219'445'760},
      {"dspark", 713'428'872},       {"engram", 315'043'840},
      {"routers", 157'409'280},      {"hyper_connections", 157'295'040},
      {"aligner", 146'821'120},      {"indexer", 45'130'752},
      {"compressor", 36'704'256},
  };
  for (const auto& [component, bytes] : expected) {
    EXPECT_EQ(model.stored_bytes(component), bytes) << component;
  }
  EXPECT_EQ(model.stored_bytes(), 510'286'023'000);
  int64_t tensors = 0;
  for (const StoredComponent& component : model.stored()) {
    tensors += component.tensors;
  }
  EXPECT_EQ(tensors, 96'085);
}

TEST(CostModel, ATokenReadsDenseWeightsAndItsExperts) {
  const CostModel model(released());
  const StepWork work = model.decode(4096);
  // Whole parts.
  for (const char* component : {"attention", "shared_experts", "head", "engram", "routers",
                                "hyper_connections", "compressor", "indexer"}) {
    EXPECT_EQ(work.matrix_bytes(component), static_cast<double>(model.stored_bytes(component)))
        << component;
  }
  EXPECT_NEAR(work.matrix_bytes("experts"), 40 * 6 * 18'800'640.0, 1);
  EXPECT_EQ(work.matrix_bytes("vision_tower"), 0);
  EXPECT_EQ(work.matrix_bytes("dspark_experts"), 0);
  EXPECT_EQ(work.table_rows, 48);
  EXPECT_EQ(work.table_bytes, 48 * 264);
  EXPECT_EQ(work.embedding_bytes, 2 * 5120);
}

// Lists of up to 512 entries need no index queries.
TEST(CostModel, IndexQueriesBeginWhereListsAreFull) {
  const CostModel model(released());
  EXPECT_EQ(model.decode(511).index_flops, 0);
  const StepWork ratio_one = model.decode(512);  // 513 entries in layers of ratio 1
  EXPECT_EQ(ratio_one.index_flops, 5 * 2.0 * 32 * 128 * 513);
  const StepWork both = model.decode(1025);
  EXPECT_EQ(both.index_flops, 2.0 * 32 * 128 * (3 * 513 + 5 * 1026));
}

TEST(CostModel, AttentionReadsWindowAndList) {
  const CostModel model(released());
  const double per_key = 4.0 * 64 * 512;
  EXPECT_EQ(model.decode(0).attention_flops, per_key * (40 * 1 + 20 * 1));  // no pair is complete
  EXPECT_EQ(model.decode(100'000).attention_flops, per_key * (2 * 128 + 38 * 640));
}

// A sequence more reads no dense weight again, and fewer experts than the first.
TEST(CostModel, SequencesShareWhatTheyRead) {
  const CostModel model(released());
  const StepWork one = model.decode(1000);
  const StepWork eight = model.decode(1000, 8);
  EXPECT_EQ(eight.matrix_bytes("attention"), one.matrix_bytes("attention"));
  EXPECT_NEAR(eight.matrix_bytes("experts") / one.matrix_bytes("experts"),
              384.0 / 6 * (1 - std::pow(1 - 6.0 / 384, 8)), 1e-9);
  EXPECT_NEAR(eight.matrix_flops(), 8 * one.matrix_flops(), 1e3);
  EXPECT_EQ(eight.attention_flops, 8 * one.attention_flops);
}

// Rows of every step as the engine plans them, by the engine's own planner.
void expect_rows_of_planner(const Config& config, int64_t tokens, int64_t step_rows) {
  const CostModel model(config);
  CachePools pools(config, 0);
  SequenceState state(config, pools);
  const std::vector<StepWork> steps = model.prompt(tokens, step_rows);
  size_t step = 0;
  for (; state.position < tokens; ++step) {
    const int64_t rows = std::min(step_rows, tokens - state.position);
    const std::vector<int32_t> ids(static_cast<size_t>(rows), 0);
    StepPlan plan;
    add_run(plan, state, ids, {}, {});
    const RowEnd end = {.position = tokens, .tail = 1, .run = 0};
    plan_needed_rows(plan, config, {&end, 1});
    ASSERT_LT(step, steps.size());
    EXPECT_EQ(steps[step].layer_rows, static_cast<double>(layer_rows(plan)))
        << tokens << " tokens, step " << step;
    state.position += rows;
  }
  EXPECT_EQ(step, steps.size());
}

TEST(CostModel, PromptsHaveTheRowsOfThePlanner) {
  Config config = released();
  for (const int64_t tokens : {1, 127, 128, 129, 600, 2414, 2415, 2541, 5000}) {
    expect_rows_of_planner(config, tokens, 512);
    expect_rows_of_planner(config, tokens, 100);
  }
  config.kv_sources.clear();  // every layer is thinned
  expect_rows_of_planner(config, 3000, 512);
}

// Per row that leaves a layer: experts and shared expert 499.4 MFLOP, projections 248.0, mixes 2.0;
// index projections and router besides.
TEST(CostModel, OperationsOfARow) {
  const CostModel model(released());
  double mixture = 0;
  double projections = 0;
  for (const MatrixWork& matrix : model.decode(100).matrices) {
    const std::string_view name = matrix.component;
    mixture += name == "experts" || name == "shared_experts" ? matrix.flops() : 0;
    projections += name == "attention" ? matrix.flops() : 0;
  }
  const double expert = 3 * 2.0 * 2304 * 5120;
  EXPECT_NEAR(mixture, 40 * 7 * expert, 1);
  EXPECT_NEAR(
      projections,
      40 * 2.0 * (1280 * 5120 + 32768.0 * 1280 + 512 * 5120 + 8192.0 * 4096 + 5120.0 * 8192), 1);
}

// Experts that a prompt meets: nearly all of a full step, and every pick is a row of one of them.
TEST(CostModel, AStepMeetsNearlyAllExperts) {
  const CostModel model(released());
  const StepWork work = model.prompt_step(512, 0, 512);
  double rows = 0;
  double most = 0;
  for (const MatrixWork& matrix : work.matrices) {
    if (matrix.component == "experts" && matrix.values > 0) {
      rows += matrix.matrices * matrix.rows;
      most = std::max(most, matrix.matrices);
      EXPECT_LE(matrix.matrices, 384);
      EXPECT_GE(matrix.rows, 1);
    }
  }
  EXPECT_GT(most, 383);
  EXPECT_NEAR(rows, 3 * 6 * work.layer_rows, 1e-3);  // w1, w2, w3
}

// 1008 x 1008 pixels: what `tessera bench vision` counts.
TEST(CostModel, OperationsOfAPicture) {
  const PictureWork work = CostModel(released()).picture(72, 72);
  EXPECT_EQ(work.patches, 5184);
  EXPECT_EQ(work.tokens, 24 * 25 + 2);
  EXPECT_NEAR(work.flops(), 7874.9e9, 0.1e9);
  EXPECT_NEAR(work.attention_flops, 3521e9, 2e9);
}

}  // namespace
}  // namespace tessera::deepseek_v41
