#include <cstring>

#include "ops/linear/formats/fp8_block/fp8_block_format.h"
#include "ops/linear/formats/mxfp4/mxfp4_format.h"
#include "ops/linear/linear.h"

namespace tessera {
namespace {

template <typename T>
T load(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// W[row, input] of any format.
float value_at(const Weight& weight, int64_t row, int64_t input) {
  const int64_t at = row * weight.inputs + input;
  if (const WeightBf16* w = std::get_if<WeightBf16>(&weight.format)) {
    return to_float(load<bf16>(w->data, at));
  }
  if (const WeightF32* w = std::get_if<WeightF32>(&weight.format)) {
    return load<float>(w->data, at);
  }
  if (const WeightFp8Block* w = std::get_if<WeightFp8Block>(&weight.format)) {
    const int64_t scales_per_row = (weight.inputs + w->block - 1) / w->block;
    const int64_t scale = row / w->block * scales_per_row + input / w->block;
    return kernels::fp8_block_value(load<uint8_t>(w->codes, at), load<uint8_t>(w->scales, scale));
  }
  const WeightMxfp4& w = std::get<WeightMxfp4>(weight.format);
  const uint8_t both = load<uint8_t>(w.codes, at / 2);
  const uint8_t code = static_cast<uint8_t>((input & 1) != 0 ? both >> 4 : both & 0xf);
  return kernels::mxfp4_value(code, load<uint8_t>(w.scales, at / 32));
}

}  // namespace

void dequantize_rows(const Weight& weight, int64_t first, int64_t count, float* out) {
  TESSERA_CHECK(first >= 0 && count >= 0 && first + count <= weight.outputs);
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t input = 0; input < weight.inputs; ++input) {
      out[row * weight.inputs + input] = value_at(weight, first + row, input);
    }
  }
}

void dequantize_rows(const Weight& weight, int64_t first, int64_t count, bf16* out) {
  TESSERA_CHECK(!std::holds_alternative<WeightF32>(weight.format));
  TESSERA_CHECK(first >= 0 && count >= 0 && first + count <= weight.outputs);
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t input = 0; input < weight.inputs; ++input) {
      const uint32_t bits = std::bit_cast<uint32_t>(value_at(weight, first + row, input));
      out[row * weight.inputs + input] = {static_cast<uint16_t>(bits >> 16)};
    }
  }
}

}  // namespace tessera
