#include <gtest/gtest.h>

#include "ops/linear/formats/format_test.h"
#include "ops/linear/test_weights.h"

namespace tessera {
namespace {

TEST(bf16_format, panels_hold_the_stored_bits) {
  test::OwnedLayer owned(test::Format::bf16, 35, 75, 1);
  test::expect_equal_panels_of_all_sizes(owned.layer().weight);
  std::vector<float> w(35 * 75);
  dequantize_rows(owned.layer().weight, 0, 35, w.data());
  alignas(64) float panel[76 * 16];
  kernels::UnpackArgs args = kernels::panel_source(owned.layer().weight, 1);
  args.count = 75;
  args.panel = panel;
  kernels::kBf16Format.f32_panels[0].function(args);
  for (size_t row = 0; row < 16; ++row) {
    for (size_t input = 0; input < 75; ++input) {
      ASSERT_EQ(panel[input * 16 + row], w[(16 + row) * 75 + input]);
    }
    ASSERT_EQ(std::bit_cast<uint32_t>(panel[75 * 16 + row]), 0x80000000U);
  }
}

}  // namespace
}  // namespace tessera
