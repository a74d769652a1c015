#include "ops/quantize/quantize.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "ops/quantize/kernels.h"
#include "ops/vector_math.h"

namespace tessera {
namespace {

constexpr std::array<Variant<const QuantizeKernels*>, 3> kVariants = {
    {{IsaLevel::reference, &kQuantizeReference},
     {IsaLevel::avx2, &kQuantizeAvx2},
     {IsaLevel::avx512, &kQuantizeAvx512}}};

// 2^ceil(log2 t) as an E8M0 code, on the bits of a positive float.
uint8_t ceil_power_code(float t) {
  const uint32_t bits = std::bit_cast<uint32_t>(t);
  return static_cast<uint8_t>((bits >> 23) + ((bits & 0x7fffffU) != 0 ? 1U : 0U));
}

float largest_magnitude(const bf16* x, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::fabs(to_float(x[i])));
  }
  return largest;
}

// The scale code of a group and its value.
uint8_t group_scale(GroupFormat format, const bf16* x, float& scale) {
  const float largest = largest_magnitude(x, group_size(format));
  uint8_t code = 0;
  switch (format) {
    case GroupFormat::e4m3_e8m0_32:
      code = ceil_power_code(std::max(largest, 1e-4f) * std::bit_cast<float>(0x3b124925U));
      scale = e8m0_to_float(code);
      break;
    case GroupFormat::e2m1_e8m0_32:
      code =
          ceil_power_code(std::max(largest, 6.0f * 0x1p-126f) * std::bit_cast<float>(0x3e2aaaabU));
      scale = e8m0_to_float(code);
      break;
    case GroupFormat::e2m1_e4m3_16:
      code = float_to_e4m3(std::max(largest, 6.0f * 0x1p-9f) / 6.0f);
      scale = e4m3_to_float(code);
      break;
  }
  return code;
}

float scale_value(GroupFormat format, std::byte code) {
  const uint8_t bits = std::to_integer<uint8_t>(code);
  return format == GroupFormat::e2m1_e4m3_16 ? e4m3_to_float(bits) : e8m0_to_float(bits);
}

// Tables of all codes: decoding a row is a look-up and a product.
struct CodeTables {
  std::array<float, 256> e4m3;
  std::array<float, 16> e2m1;
  CodeTables() {
    for (int i = 0; i < 256; ++i) {
      e4m3[static_cast<size_t>(i)] = e4m3_to_float(static_cast<uint8_t>(i));
    }
    for (int i = 0; i < 16; ++i) {
      e2m1[static_cast<size_t>(i)] = e2m1_to_float(static_cast<uint8_t>(i));
    }
  }
};
const CodeTables kTables;

float store(float value, float*) { return value; }
bf16 store(float value, bf16*) { return to_bf16(value); }

template <typename T>
void unpack(GroupFormat format, const std::byte* codes, const std::byte* scales, int64_t width,
            T* y) noexcept {
  const int64_t group = group_size(format);
  for (int64_t g = 0; g < width / group; ++g) {
    const float scale = scale_value(format, scales[g]);
    T* out = y + g * group;
    if (format == GroupFormat::e4m3_e8m0_32) {
      for (int64_t i = 0; i < group; ++i) {
        out[i] = store(kTables.e4m3[std::to_integer<size_t>(codes[g * group + i])] * scale, y);
      }
    } else {
      for (int64_t i = 0; i < group / 2; ++i) {
        const size_t pair = std::to_integer<size_t>(codes[(g * group) / 2 + i]);
        out[2 * i] = store(kTables.e2m1[pair & 15U] * scale, y);
        out[2 * i + 1] = store(kTables.e2m1[pair >> 4U] * scale, y);
      }
    }
  }
}

}  // namespace

int64_t group_size(GroupFormat format) { return format == GroupFormat::e2m1_e4m3_16 ? 16 : 32; }

int64_t group_code_bytes(GroupFormat format, int64_t width) {
  return format == GroupFormat::e4m3_e8m0_32 ? width : width / 2;
}

int64_t group_scale_bytes(GroupFormat format, int64_t width) { return width / group_size(format); }

void pack_row(GroupFormat format, const bf16* x, int64_t width, std::byte* codes,
              std::byte* scales) noexcept {
  const int64_t group = group_size(format);
  for (int64_t g = 0; g < width / group; ++g) {
    const bf16* in = x + g * group;
    float scale = 0;
    scales[g] = static_cast<std::byte>(group_scale(format, in, scale));
    if (format == GroupFormat::e4m3_e8m0_32) {
      for (int64_t i = 0; i < group; ++i) {
        codes[g * group + i] = static_cast<std::byte>(float_to_e4m3(to_float(in[i]) / scale));
      }
    } else {
      for (int64_t i = 0; i < group / 2; ++i) {
        const uint32_t low = float_to_e2m1(to_float(in[2 * i]) / scale);
        const uint32_t high = float_to_e2m1(to_float(in[2 * i + 1]) / scale);
        codes[(g * group) / 2 + i] = static_cast<std::byte>(low | (high << 4U));
      }
    }
  }
}

void unpack_row(GroupFormat format, const std::byte* codes, const std::byte* scales, int64_t width,
                bf16* y) noexcept {
  unpack(format, codes, scales, width, y);
}

void unpack_row(GroupFormat format, const std::byte* codes, const std::byte* scales, int64_t width,
                float* y) noexcept {
  unpack(format, codes, scales, width, y);
}

void quantize_dequantize(ExecContext& ctx, GroupFormat format, const bf16* x, int64_t rows,
                         int64_t width, bf16* y) {
  if (format == GroupFormat::e4m3_e8m0_32) {
    const QuantizeKernels* kernels = pick<const QuantizeKernels*>(ctx, kVariants);
    ctx.threads.parallel_for(rows, [&](int64_t row, int) {
      kernels->row_e4m3(&x[row * width].bits, width, &y[row * width].bits);
    });
    return;
  }
  const int64_t group = group_size(format);
  TESSERA_CHECK(width % group == 0);
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    for (int64_t g = 0; g < width / group; ++g) {
      const bf16* in = x + row * width + g * group;
      bf16* out = y + row * width + g * group;
      float scale = 0;
      group_scale(format, in, scale);
      for (int64_t i = 0; i < group; ++i) {
        out[i] = to_bf16(e2m1_to_float(float_to_e2m1(to_float(in[i]) / scale)) * scale);
      }
    }
  });
}

void quantize_e2m1_calibrated(ExecContext& ctx, const bf16* x, int64_t rows, int64_t width,
                              float input_scale, bf16* y) {
  TESSERA_CHECK(width % group_size(GroupFormat::e2m1_e4m3_16) == 0);
  const QuantizeKernels* kernels = pick<const QuantizeKernels*>(ctx, kVariants);
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    kernels->row_e2m1_calibrated(&x[row * width].bits, width, input_scale, &y[row * width].bits);
  });
}

}  // namespace tessera
