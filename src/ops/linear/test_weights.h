// Weights with owned bytes for the tests of linear.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "ops/linear/linear.h"

namespace tessera::test {

enum class Format { bf16, f16, f32, fp8_block, fp8_scaled, mxfp4, nvfp4 };
constexpr Format kFormats[] = {Format::bf16,       Format::f16,   Format::f32,  Format::fp8_block,
                               Format::fp8_scaled, Format::mxfp4, Format::nvfp4};

// A layer whose bytes begin at an odd address: mapped files promise no alignment.
class OwnedLayer {
 public:
  OwnedLayer(Format format, int64_t outputs, int64_t inputs, uint32_t seed, int64_t block = 32)
      : random_(seed) {
    layer_.weight.outputs = outputs;
    layer_.weight.inputs = inputs;
    const int64_t elements = outputs * inputs;
    switch (format) {
      case Format::bf16:
        fill_bf16(codes_, elements);
        layer_.weight.format = WeightBf16{codes_.data() + 1};
        break;
      case Format::f16:
        fill_bytes(codes_, elements * 2, 0, 255);
        for (size_t i = 2; i < codes_.size(); i += 2) {  // below 1, subnormal numbers too
          codes_[i] &= std::byte{0xbb};
        }
        layer_.weight.format = WeightF16{codes_.data() + 1};
        break;
      case Format::f32:
        fill_f32(elements);
        layer_.weight.format = WeightF32{codes_.data() + 1};
        break;
      case Format::fp8_block:
        fill_e4m3(codes_, elements);
        fill_bytes(scales_, ((outputs + block - 1) / block) * ((inputs + block - 1) / block), 116,
                   124);
        layer_.weight.format = WeightFp8Block{codes_.data() + 1, scales_.data() + 1, block};
        break;
      case Format::fp8_scaled:
        fill_e4m3(codes_, elements);
        fill_values<float>(scales_,
                           ((outputs + block - 1) / block) * ((inputs + block - 1) / block),
                           [](float x) { return x; });
        layer_.weight.format = WeightFp8Scaled{codes_.data() + 1, scales_.data() + 1, block};
        break;
      case Format::mxfp4:
        fill_bytes(codes_, elements / 2, 0, 255);
        fill_bytes(scales_, elements / 32, 116, 124);
        layer_.weight.format = WeightMxfp4{codes_.data() + 1, scales_.data() + 1};
        break;
      case Format::nvfp4:
        fill_bytes(codes_, elements / 2, 0, 255);
        fill_e4m3(scales_, elements / 16);
        layer_.weight.format = WeightNvfp4{codes_.data() + 1, scales_.data() + 1, 0x1.3p-11f};
        break;
    }
  }

  OwnedLayer& add_bias() {
    fill_bf16(bias_, layer_.weight.outputs);
    layer_.bias = bias_.data() + 1;
    return *this;
  }
  Linear& layer() { return layer_; }
  std::byte* codes() { return codes_.data() + 1; }
  std::byte* scales() { return scales_.data() + 1; }

 private:
  void fill_bytes(std::vector<std::byte>& to, int64_t count, int low, int high) {
    std::uniform_int_distribution<int> pick_byte(low, high);
    to.resize(static_cast<size_t>(count) + 1);
    for (std::byte& b : to) {
      b = static_cast<std::byte>(pick_byte(random_));
    }
  }
  void fill_e4m3(std::vector<std::byte>& to, int64_t count) {  // no NaN
    fill_bytes(to, count, 0, 255);
    for (std::byte& code : to) {
      code = (code & std::byte{0x7f}) == std::byte{0x7f} ? std::byte{0x38} : code;
    }
  }
  template <typename T>
  void fill_values(std::vector<std::byte>& to, int64_t count, T (*convert)(float)) {
    std::normal_distribution<float> normal(0.0f, 0.05f);
    to.resize(static_cast<size_t>(count) * sizeof(T) + 1);
    for (int64_t i = 0; i < count; ++i) {
      const T value = convert(normal(random_));
      std::memcpy(to.data() + 1 + static_cast<size_t>(i) * sizeof(T), &value, sizeof(T));
    }
  }
  void fill_bf16(std::vector<std::byte>& to, int64_t count) {
    fill_values<bf16>(to, count, to_bf16);
  }
  void fill_f32(int64_t count) {
    fill_values<float>(codes_, count, [](float x) { return x; });
  }

  std::mt19937 random_;
  std::vector<std::byte> codes_, scales_, bias_;
  Linear layer_;
};

inline std::vector<bf16> random_inputs(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<bf16> x(static_cast<size_t>(count));
  for (bf16& v : x) {
    v = to_bf16(normal(random));
  }
  return x;
}

}  // namespace tessera::test
