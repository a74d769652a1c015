// The plain loops behind every format's reference: a panel from a function of (row, input).
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/float_types.h"
#include "ops/linear/formats/unpack.h"

namespace tessera::kernels {

template <typename Value>  // float value(int64_t row, int64_t input)
void fill_f32_panel(const UnpackArgs& args, const Value& value) {
  float* panel = static_cast<float*>(args.panel);
  const int64_t padded = args.count + (args.count & 1);
  for (int64_t i = 0; i < padded; ++i) {
    for (int64_t lane = 0; lane < kPanelRows; ++lane) {
      const int64_t row = std::min(lane, args.rows - 1);
      panel[i * kPanelRows + lane] = i < args.count ? value(row, args.first + i) : -0.0f;
    }
  }
}

template <typename Value>
void fill_pair_panel(const UnpackArgs& args, const Value& value) {
  bf16* panel = static_cast<bf16*>(args.panel);
  const int64_t padded = args.count + (args.count & 1);
  for (int64_t i = 0; i < padded; ++i) {
    for (int64_t lane = 0; lane < kPanelRows; ++lane) {
      const int64_t row = std::min(lane, args.rows - 1);
      const float v = i < args.count ? value(row, args.first + i) : -0.0f;
      panel[(i / 2 * kPanelRows + lane) * 2 + (i & 1)] = {
          static_cast<uint16_t>(std::bit_cast<uint32_t>(v) >> 16)};
    }
  }
}

}  // namespace tessera::kernels
