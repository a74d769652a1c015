// All that linear knows of a format of weights. Each format is a folder here: its header,
// reference, kernels and test, and one constant of this type. docs/adding-a-format.md walks through
// one.
#pragma once

#include <span>
#include <string_view>

#include "ops/linear/formats/fused.h"
#include "ops/linear/formats/unpack.h"
#include "ops/linear/linear.h"
#include "tensor/exec_context.h"

namespace tessera::kernels {

enum class PanelKind { f32, pairs };

// Where the rows of a weight and their scales lie.
struct WeightLayout {
  const std::byte* codes = nullptr;
  int64_t row_bytes = 0;              // between rows of codes
  const std::byte* scales = nullptr;  // nullptr: the format has none
  int64_t scale_row_bytes = 0;        // between rows of scales
  int64_t scale_rows = 1;             // rows that share a row of scales: 1, or a multiple of 16
  int64_t block = 32;                 // inputs that share a scale
  int64_t input_unit = 1;             // the number of inputs is a multiple of it
};

struct Format {
  std::string_view name;
  WeightLayout (*layout)(const Weight& weight);
  // W[row, input] without the factor: the plain definition.
  float (*value)(const Weight& weight, int64_t row, int64_t input);
  // Implementations by kernel level, reference first. No pair panels: values are not exact in bf16.
  std::span<const Variant<UnpackFn>> f32_panels;
  std::span<const Variant<UnpackFn>> pair_panels;
  FusedFn fused_avx512 = nullptr;            // of one row; nullptr where there is none
  float (*factor)(const Weight&) = nullptr;  // of the finished sums; nullptr: 1
  // The panels hold the codes alone: the sums over a block of inputs are multiplied by its scale,
  // block_scale(w, row, block). nullptr: scales are in the panels.
  float (*block_scale)(const Weight&, int64_t row, int64_t block) = nullptr;

  std::span<const Variant<UnpackFn>> panels(PanelKind kind) const {
    return kind == PanelKind::f32 ? f32_panels : pair_panels;
  }
};

const Format& format_of(const Weight& weight);

// The same without a weight at hand, for other operations that unpack activations.
extern const Format kBf16Format;
extern const Format kF16Format;
extern const Format kF32Format;
extern const Format kFp8BlockFormat;
extern const Format kFp8ScaledFormat;
extern const Format kMxfp4Format;
extern const Format kNvfp4Format;

// What the unpackers need for panel `panel` of a weight; count, first and panel are left to the
// caller.
UnpackArgs panel_source(const Weight& weight, int64_t panel);

// One stored element of any alignment.
template <typename T>
T load_element(const std::byte* data, int64_t index) {
  T value;
  __builtin_memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// The E2M1 code of an input: the low nibble is the even one.
inline uint8_t nibble_of(const std::byte* row, int64_t input) {
  const uint8_t both = static_cast<uint8_t>(row[input / 2]);
  return static_cast<uint8_t>((input & 1) != 0 ? both >> 4 : both & 0xf);
}

}  // namespace tessera::kernels
