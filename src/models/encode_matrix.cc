#include "models/encode_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/float_types.h"

namespace tessera {
namespace {

constexpr int64_t kMxfp4Group = 32;
constexpr int64_t kNvfp4Group = 16;
// Exponents of the powers of two that E4M3 holds: subnormal 2^-9 up to 2^8.
constexpr int kSmallestExponent = -9;
constexpr int kLargestExponent = 8;

template <typename T>
void store(std::byte* to, int64_t index, T value) {
  std::memcpy(to + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

// Round to nearest, ties to even; beyond the largest number infinity.
uint16_t to_f16(float x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(x));
  if (magnitude < 0x1p-14) {  // steps of 2^-24
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24)));
  }
  int exponent;
  const double fraction = std::frexp(magnitude, &exponent);  // in [1/2, 1)
  const int64_t mantissa = static_cast<int64_t>(std::nearbyint(fraction * 2048)) - 1024;
  const int64_t bits = (int64_t{exponent} + 14) * 1024 + mantissa;  // a carry moves the exponent
  return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::min<int64_t>(bits, 0x7c00)));
}

float largest_of(const float* values, int64_t rows, int64_t columns, int64_t stride) {
  float largest = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const float magnitude = std::fabs(values[r * stride + c]);
      if (!(magnitude <= 0x1.fffffep127f)) {
        throw Error(ErrorCode::bad_file, "a weight is infinite or no number");
      }
      largest = std::max(largest, magnitude);
    }
  }
  return largest;
}

// E8M0 of the smallest power of two s with amax / s <= largest_code.
uint8_t power_scale(float amax, double largest_code) {
  if (amax == 0) {
    return 1;
  }
  int exponent;
  const double fraction = std::frexp(static_cast<double>(amax) / largest_code, &exponent);
  const int ceiled = fraction == 0.5 ? exponent - 1 : exponent;
  return static_cast<uint8_t>(std::clamp(ceiled + 127, 1, 254));
}

void encode_e2m1_group(const float* values, int64_t count, double scale, std::byte* codes) {
  for (int64_t i = 0; i < count; i += 2) {
    const auto code = [&](float v) {
      return float_to_e2m1(static_cast<float>(static_cast<double>(v) / scale));
    };
    codes[i / 2] = static_cast<std::byte>(code(values[i]) | (code(values[i + 1]) << 4U));
  }
}

void encode_plain(StoredFormat format, const float* values, int64_t count, std::byte* codes) {
  largest_of(values, 1, count, count);  // refuses infinities
  for (int64_t i = 0; i < count; ++i) {
    if (format == StoredFormat::bf16) {
      store(codes, i, to_bf16(values[i]));
    } else if (format == StoredFormat::f16) {
      store(codes, i, to_f16(values[i]));
    } else {
      store(codes, i, values[i]);
    }
  }
}

void encode_fp8(const MatrixFormat& format, const float* values, int64_t rows, int64_t inputs,
                std::byte* codes, std::byte* scales) {
  const int64_t block = format.block;
  const int64_t across = ceil_div(inputs, block);
  for (int64_t tile = 0; tile < ceil_div(rows, block) * across; ++tile) {
    const int64_t row = tile / across * block;
    const int64_t column = tile % across * block;
    const int64_t height = std::min(block, rows - row);
    const int64_t width = std::min(block, inputs - column);
    const float* from = values + row * inputs + column;
    const float largest = largest_of(from, height, width, inputs);
    double scale;
    if (format.format == StoredFormat::fp8_e8m0) {
      const uint8_t code = power_scale(largest, 448.0);
      store(scales, tile, code);
      scale = static_cast<double>(e8m0_to_float(code));
    } else {
      const float rounded = largest == 0 ? 1.0f : std::max(largest / 448.0f, 0x1p-126f);
      store(scales, tile, rounded);
      scale = static_cast<double>(rounded);
    }
    for (int64_t r = 0; r < height; ++r) {
      for (int64_t c = 0; c < width; ++c) {
        const double value = static_cast<double>(from[r * inputs + c]);
        codes[(row + r) * inputs + column + c] =
            static_cast<std::byte>(float_to_e4m3(static_cast<float>(value / scale)));
      }
    }
  }
}

void encode_mxfp4(const float* values, int64_t rows, int64_t inputs, std::byte* codes,
                  std::byte* scales) {
  for (int64_t g = 0; g < rows * inputs / kMxfp4Group; ++g) {
    const float* from = values + g * kMxfp4Group;
    const uint8_t code = power_scale(largest_of(from, 1, kMxfp4Group, kMxfp4Group), 6.0);
    store(scales, g, code);
    encode_e2m1_group(from, kMxfp4Group, static_cast<double>(e8m0_to_float(code)),
                      codes + g * kMxfp4Group / 2);
  }
}

void encode_nvfp4(const float* values, int64_t rows, int64_t inputs, float global, std::byte* codes,
                  std::byte* scales) {
  for (int64_t g = 0; g < rows * inputs / kNvfp4Group; ++g) {
    const float* from = values + g * kNvfp4Group;
    const float largest = largest_of(from, 1, kNvfp4Group, kNvfp4Group);
    const uint8_t code = std::max<uint8_t>(float_to_e4m3(largest / (6.0f * global)), 1);
    store(scales, g, code);
    encode_e2m1_group(from, kNvfp4Group,
                      static_cast<double>(e4m3_to_float(code)) * static_cast<double>(global),
                      codes + g * kNvfp4Group / 2);
  }
}

}  // namespace

int64_t encoded_code_bytes(const MatrixFormat& format, int64_t rows, int64_t inputs) {
  return stored_tensors(format, "", rows, inputs).front().bytes();
}

int64_t encoded_scale_bytes(const MatrixFormat& format, int64_t rows, int64_t inputs) {
  const std::vector<TensorSpec> tensors = stored_tensors(format, "", rows, inputs);
  return tensors.size() > 1 ? tensors[1].bytes() : 0;
}

float nvfp4_global_scale(float amax) { return amax > 0 ? amax / (6.0f * 448.0f) : 1.0f; }

void encode_rows(const MatrixFormat& format, const float* values, int64_t rows, int64_t inputs,
                 float global, std::byte* codes, std::byte* scales) {
  switch (format.format) {
    case StoredFormat::bf16:
    case StoredFormat::f16:
    case StoredFormat::f32:
      encode_plain(format.format, values, rows * inputs, codes);
      break;
    case StoredFormat::fp8_e8m0:
    case StoredFormat::fp8_f32:
      encode_fp8(format, values, rows, inputs, codes, scales);
      break;
    case StoredFormat::mxfp4:
      TESSERA_CHECK(inputs % kMxfp4Group == 0);
      encode_mxfp4(values, rows, inputs, codes, scales);
      break;
    case StoredFormat::nvfp4:
      TESSERA_CHECK(inputs % kNvfp4Group == 0 && global > 0);
      encode_nvfp4(values, rows, inputs, global, codes, scales);
      break;
  }
}

float Nvfp4Cast::global() const { return std::ldexp(1.0f, -exponent); }

uint8_t Nvfp4Cast::scale(uint8_t e8m0) const {
  const int power =
      std::clamp(static_cast<int>(e8m0) - 127 + exponent, kSmallestExponent, kLargestExponent);
  return float_to_e4m3(std::ldexp(1.0f, power));
}

std::optional<Nvfp4Cast> nvfp4_cast(const Weight& weight) {
  const WeightMxfp4& w = std::get<WeightMxfp4>(weight.format);
  int smallest = 255;
  int largest = 0;
  for (int64_t g = 0; g < weight.outputs * weight.inputs / kMxfp4Group; ++g) {
    const std::byte* codes = w.codes + g * kMxfp4Group / 2;
    const bool is_zero = std::all_of(codes, codes + kMxfp4Group / 2, [](std::byte both) {
      return (both & std::byte{0x77}) == std::byte{0};  // codes 0 and 8 are zeros
    });
    if (!is_zero) {
      smallest = std::min(smallest, std::to_integer<int>(w.scales[g]));
      largest = std::max(largest, std::to_integer<int>(w.scales[g]));
    }
  }
  if (largest == 0) {
    return Nvfp4Cast{};  // nothing but zeros, or scales of 2^-127
  }
  const Nvfp4Cast cast = {kLargestExponent - (largest - 127)};
  const bool fits = largest < 255 && smallest - 127 + cast.exponent >= kSmallestExponent &&
                    cast.exponent >= -126 && cast.exponent <= 126;
  return fits ? std::optional(cast) : std::nullopt;
}

}  // namespace tessera
