#include "image/patchify.h"

#include <gtest/gtest.h>

#include <span>

#include "io/sha256.h"

namespace tessera::image {
namespace {

// DeepSeek-V4.1 specification, section 2.5.
TEST(Patchify, TableOfTheSpecification) {
  const PixelTable& table = signed_unit_table();
  const std::pair<size_t, uint16_t> entries[] = {
      {0, 0xbf80},   {1, 0xbf7e},   {63, 0xbf02},  {126, 0xbc41}, {127, 0xbb81},
      {128, 0x3b81}, {129, 0x3c41}, {191, 0x3eff}, {254, 0x3f7e}, {255, 0x3f80}};
  for (const auto& [level, bits] : entries) {
    EXPECT_EQ(table[level].bits, bits) << level;
  }
  EXPECT_EQ(to_float(table[127]), -0.003936767578125f);
  EXPECT_EQ(io::sha256_hex(std::as_bytes(std::span(table))),
            "3a03ac228fc325cb58ef534b6b4c1cd74ea56fc0124e63699b00fcc928ac720d");
}

// One bright sample at a time must land in channel, row, column order.
TEST(Patchify, SinglePixelProbe) {
  constexpr int64_t kPatch = 4;
  const int64_t columns = 3;
  for (int64_t y = 0; y < 2 * kPatch; ++y) {
    for (int64_t x = 0; x < columns * kPatch; ++x) {
      for (int64_t c = 0; c < 3; ++c) {
        Image canvas({columns * kPatch, 2 * kPatch}, {0, 0, 0});
        canvas.row(y)[3 * x + c] = 255;
        const Tensor patches = patchify(canvas, kPatch, signed_unit_table());
        ASSERT_EQ(patches.shape(), (Shape{2 * columns, 3 * kPatch * kPatch}));
        const int64_t row = (y / kPatch) * columns + x / kPatch;
        const int64_t feature = c * kPatch * kPatch + (y % kPatch) * kPatch + x % kPatch;
        const bf16* values = patches.as<bf16>();
        for (int64_t i = 0; i < patches.shape().elements(); ++i) {
          ASSERT_EQ(to_float(values[i]), i == row * 3 * kPatch * kPatch + feature ? 1.0f : -1.0f);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::image
