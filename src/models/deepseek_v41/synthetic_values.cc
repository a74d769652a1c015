#include "models/deepseek_v41/synthetic_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"

namespace tessera::deepseek_v41 {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15U;
constexpr int64_t kItemBytes = 128 << 10;  // of an item of a parallel loop
constexpr int64_t kWordBytes = 8;

// rms of a value whose code is drawn evenly: E4M3 without its two NaN codes, E2M1; E4M3 of 64 to
// 240.
constexpr double kE4m3Rms = 107.0;
constexpr double kE2m1Rms = 2.926;
constexpr double kScaleE4m3Rms = 148.3;

uint64_t mix64(uint64_t x) {
  uint64_t z = x + kGolden;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

bool contains(std::string_view text, std::string_view piece) {
  return text.find(piece) != std::string_view::npos;
}

bool ends_with_one_of(std::string_view text, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [&](std::string_view end) { return text.ends_with(end); });
}

// Halves go up.
int rounded(double exponent) { return static_cast<int>(std::floor(exponent + 0.5)); }

float power_of_two(double exponent) { return std::ldexp(1.0f, rounded(exponent)); }

bool is_gain(std::string_view tensor, DType dtype) {
  return contains(tensor, "norm") ||
         ends_with_one_of(tensor, {".engram.q_weight", ".engram.k_weight"}) ||
         (dtype == DType::f32 && contains(tensor, ".hc_") && tensor.ends_with("_scale"));
}

// Matrices that the release stores as FP8 or FP4.
bool is_quantised_in_release(std::string_view tensor) {
  return ends_with_one_of(tensor,
                          {".attn.wq_a.weight", ".attn.wq_b.weight", ".attn.wkv.weight",
                           ".attn.wo_a.weight", ".attn.wo_b.weight", ".attn.indexer.wq_b.weight",
                           ".main_proj.weight", ".engram.wkv.weight"}) ||
         (tensor.ends_with(".weight") &&
          (contains(tensor, ".ffn.experts.") || contains(tensor, ".ffn.shared_experts.")));
}

// Half width of the even distribution of a tensor that is no gain.
float amplitude_of(std::string_view tensor, DType dtype, int64_t inputs) {
  const bool is_matrix = tensor.ends_with(".weight");
  if (dtype == DType::f32 && !is_matrix) {
    return contains(tensor, ".hc_") && tensor.ends_with("_fn") ? 0x1p-8f : 0x1p-3f;
  }
  if (tensor.ends_with(".bias")) {
    return 0x1p-3f;
  }
  if (tensor == "aligner.w1.weight") {
    return 0x1p-6f;
  }
  if (tensor == "aligner.w2.weight" || tensor.ends_with(".mlp.w2.weight")) {
    return 0x1p-5f;
  }
  if (ends_with_one_of(tensor, {".engram.embed.weight", ".markov_head.embed.weight"})) {
    return 1.0f;
  }
  if (is_quantised_in_release(tensor)) {
    return power_of_two(std::log2(3.0 / static_cast<double>(std::max<int64_t>(1, inputs))) / 2);
  }
  return 0x1p-4f;
}

// Round to nearest, ties to even; |x| is below 65504.
uint16_t to_f16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (u >> 16) & 0x8000U;
  const uint32_t magnitude = u & 0x7fffffffU;
  if (magnitude < 0x38800000U) {  // below 2^-14: steps of 2^-24; adding 2^-1 leaves just those bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) & 0x7ffU));
  }
  const uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112U << 10)));
}

bool is_packed(DType dtype) { return dtype == DType::i8 || dtype == DType::u8; }

// Length of a row of a matrix; 1 for a tensor that is none.
int64_t inputs_of(const TensorSpec& weight) {
  if (weight.shape.rank() != 2) {
    return 1;
  }
  return weight.shape[1] * (is_packed(weight.dtype) ? 2 : 1);
}

}  // namespace

uint64_t fnv(std::span<const std::byte> bytes, uint64_t start) {
  uint64_t h = start;
  for (const std::byte b : bytes) {
    h = (h ^ static_cast<uint64_t>(b)) * 0x100000001B3U;
  }
  return h;
}

SyntheticStream::SyntheticStream(std::string_view tensor, uint64_t seed)
    : key_(mix64(seed ^ fnv(std::as_bytes(std::span(tensor))))) {}

uint64_t SyntheticStream::bits(int64_t index) const {
  return mix64(key_ + static_cast<uint64_t>(index) * kGolden);
}

SyntheticTensor::SyntheticTensor(const TensorSpec& tensor, const TensorSpec& weight, uint64_t seed)
    : stream_(tensor.name, seed), element_bytes_(dtype_bytes(tensor.dtype)) {
  const std::string_view name = tensor.name;
  const bool is_scale = ends_with_one_of(
      name, {".scale", ".weight_scale", ".weight_scale_inv", ".weight_scale_2", ".input_scale"});
  if (is_scale) {
    const bool is_table = name.ends_with(".engram.embed.scale");
    const double inputs = static_cast<double>(std::max<int64_t>(1, inputs_of(weight)));
    choose_scale(name, tensor.dtype, is_packed(weight.dtype) ? kE2m1Rms : kE4m3Rms,
                 is_table ? 1.0 : 1 / std::sqrt(inputs));
  } else if (tensor.dtype == DType::f8_e4m3) {
    rule_ = Rule::e4m3;
  } else if (is_packed(tensor.dtype)) {
    rule_ = Rule::packed;
  } else {
    choose_numbers(name, tensor.dtype, inputs_of(tensor));
  }
}

void SyntheticTensor::choose_numbers(std::string_view name, DType dtype, int64_t inputs) {
  if (dtype != DType::bf16 && dtype != DType::f16 && dtype != DType::f32) {
    throw Error(ErrorCode::unsupported,
                str_cat(name, ": no synthetic values of type ", dtype_name(dtype)));
  }
  rule_ = dtype == DType::bf16 ? Rule::bf16 : dtype == DType::f16 ? Rule::f16 : Rule::f32;
  const bool has_one = is_gain(name, dtype);
  offset_ = has_one ? 1.0f : 0.0f;
  amplitude_ = has_one ? 0x1p-2f : amplitude_of(name, dtype, inputs);
}

void SyntheticTensor::choose_scale(std::string_view name, DType dtype, double codes_rms,
                                   double values_rms) {
  const double exponent = std::log2(values_rms / codes_rms);
  if (name.ends_with(".scale") && dtype == DType::f8_e8m0) {
    rule_ = Rule::e8m0;
    code_ = 127 + rounded(exponent);
  } else if (name.ends_with(".weight_scale") && dtype == DType::f8_e4m3) {
    rule_ = Rule::scale_e4m3;
  } else if (name.ends_with(".weight_scale_inv") && dtype == DType::f32) {
    rule_ = Rule::f32;
    offset_ = 0.75f;
    amplitude_ = 0.25f;
    factor_ = power_of_two(exponent);
  } else if (name.ends_with(".weight_scale_2") && dtype == DType::f32) {
    rule_ = Rule::f32;
    offset_ = 1.0f;
    amplitude_ = 0.25f;
    factor_ = power_of_two(exponent - std::log2(kScaleE4m3Rms));
  } else if (name.ends_with(".input_scale") && dtype == DType::f32) {
    rule_ = Rule::constant;
    offset_ = 0x1p-8f;
  } else {
    throw Error(ErrorCode::unsupported,
                str_cat(name, ": no synthetic scales of type ", dtype_name(dtype)));
  }
}

template <typename T, typename Make>
void SyntheticTensor::fill_elements(int64_t first, std::span<std::byte> out,
                                    const Make& make) const noexcept {
  const int64_t count = static_cast<int64_t>(out.size() / sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    const T value = make(first + i);
    std::memcpy(out.data() + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  }
}

// Eight codes (packed: sixteen) from every 64 bits.
void SyntheticTensor::fill_codes(int64_t first, std::span<std::byte> out) const noexcept {
  const bool is_e4m3 = rule_ == Rule::e4m3;
  const int64_t end = first + static_cast<int64_t>(out.size());
  for (int64_t at = first; at < end;) {
    const int64_t skipped = at % kWordBytes;
    const int64_t bytes = std::min(kWordBytes - skipped, end - at);
    uint64_t bits = stream_.bits(at / kWordBytes);
    if (is_e4m3) {
      // The high bit of a byte of `low + 1` says that all seven low bits of `bits` are set: a NaN
      // code, which becomes the largest number.
      const uint64_t low = bits & 0x7f7f7f7f7f7f7f7fU;
      bits ^= ((low + 0x0101010101010101U) & 0x8080808080808080U) >> 7;
    }
    bits >>= 8 * skipped;
    std::memcpy(out.data() + (at - first), &bits, static_cast<size_t>(bytes));
    at += bytes;
  }
}

void SyntheticTensor::fill(int64_t first, std::span<std::byte> out) const noexcept {
  TESSERA_CHECK(static_cast<int64_t>(out.size()) % element_bytes_ == 0);
  // amplitude * u and the product with a power of two are exact.
  const auto number = [this](int64_t i) {
    return (offset_ + amplitude_ * stream_.unit(i)) * factor_;
  };
  switch (rule_) {
    case Rule::bf16:
      return fill_elements<bf16>(first, out, [&](int64_t i) { return to_bf16(number(i)); });
    case Rule::f16:
      return fill_elements<uint16_t>(first, out, [&](int64_t i) { return to_f16(number(i)); });
    case Rule::f32:
      return fill_elements<float>(first, out, number);
    case Rule::e4m3:
    case Rule::packed:
      return fill_codes(first, out);
    case Rule::e8m0:
      return fill_elements<uint8_t>(first, out, [this](int64_t i) {
        return static_cast<uint8_t>(code_ - static_cast<int>(stream_.bits(i) >> 63));
      });
    case Rule::scale_e4m3:
      return fill_elements<uint8_t>(first, out, [this](int64_t i) {
        return static_cast<uint8_t>(0x68U + static_cast<unsigned>(stream_.bits(i) >> 60));
      });
    case Rule::constant:
      return fill_elements<float>(first, out, [this](int64_t) { return offset_; });
  }
}

void SyntheticTensor::fill(ThreadPool& threads, int64_t first, std::span<std::byte> out) const {
  const int64_t bytes = static_cast<int64_t>(out.size());
  threads.parallel_for(ceil_div(bytes, kItemBytes), [&](int64_t item, int) {
    const int64_t begin = item * kItemBytes;
    const int64_t end = std::min(bytes, begin + kItemBytes);
    fill(first + begin / element_bytes_,
         out.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  });
}

void synthesize(ExecContext& ctx, std::string_view tensor, uint64_t seed, std::span<bf16> out) {
  const TensorSpec spec = {std::string(tensor), DType::bf16, {static_cast<int64_t>(out.size())}};
  SyntheticTensor(spec, spec, seed).fill(ctx.threads, 0, std::as_writable_bytes(out));
}

}  // namespace tessera::deepseek_v41
