// The vision tower at its released size against the reference: a small picture, the sharp test
// without rounding points, the largest usual picture; and the generator on the largest tensor.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/full_tower.h"

namespace tessera {
namespace {

TEST(FullTowerSlow, Bf16Of700x420) {
  TESSERA_SKIP_FULL_SIZE_WITHOUT_VECTORS();
  test::expect_like_reference(test::compare_tower<bf16>("700x420.math", 700, 420));
}

TEST(FullTowerSlow, F32Of700x420) {
  TESSERA_SKIP_FULL_SIZE_WITHOUT_VECTORS();
  test::expect_like_fp32(test::compare_tower<float>("700x420.fp32", 700, 420));
}

TEST(FullTowerSlow, Bf16Of1008x1008) {
  TESSERA_SKIP_FULL_SIZE_WITHOUT_VECTORS();
  test::expect_like_reference(test::compare_tower<bf16>("1008x1008.math", 1008, 1008));
}

// Check values of README.md.
TEST(FullTowerSlow, GeneratedTensors) {
  struct Row {
    const char* tensor;
    int64_t elements;
    uint64_t check;
  };
  const Row rows[] = {
      {"vision.patch_embed.proj.weight", 1024 * 588, 0xe2807a351167a297U},
      {"vision.blocks.31.mlp.w2.weight", 1024 * 2816, 0x4005ed64ac5a1737U},
      {"aligner.w1.weight", 5120 * 9216, 0xde7b772b90cb3a14U},
  };
  test::OpContext context;
  for (const Row& row : rows) {
    std::vector<bf16> values(static_cast<size_t>(row.elements));
    deepseek_v41::synthesize(context.ctx, row.tensor, 1, values);
    EXPECT_EQ(deepseek_v41::fnv(std::as_bytes(std::span(values))), row.check) << row.tensor;
  }
}

}  // namespace
}  // namespace tessera
