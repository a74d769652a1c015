// Values that need no checkpoint: numbers of a counter-based generator, which any program can make
// again (scripts/oracle/synthetic_weights.py does). The vision tower's values are those of
// tests/golden/v41-tower-full (README.md there).
//
// All arithmetic is modulo 2^64, G = 0x9E3779B97F4A7C15:
//   mix(x)  z = x + G;  z = (z ^ z>>30) * 0xBF58476D1CE4E5B9;
//           z = (z ^ z>>27) * 0x94D049BB133111EB;  z ^ z>>31
//   fnv(s)  h = 0xCBF29CE484222325;  for each byte b:  h = (h ^ b) * 0x100000001B3
//   key     mix(seed ^ fnv(tensor name)),  bits_i = mix(key + i * G),  i = row-major element index
//   u_i     (int(bits_i >> 40) - 2^23) * 2^-23: exact in fp32, in [-1, 1)
//
// Numbers, BF16, F16 and F32: c + a * u_i in fp32, rounded once to the type. c = 0, and the first
// line that fits gives a:
//   gains: c = 1, a = 2^-2    `norm` in the name; *.engram.q_weight, *.engram.k_weight; the F32
//                             tensors *.hc_*_scale
//   2^-8                      *.hc_*_fn
//   2^-3                      every other F32 tensor that is no *.weight; *.bias
//   2^-6                      aligner.w1.weight
//   2^-5                      aligner.w2.weight and *.mlp.w2.weight
//   1                         *.engram.embed.weight, *.markov_head.embed.weight
//   2^round(log2(3 / k) / 2)  matrices that the release quantises, in checkpoints that do not:
//   *.weight
//                             of attn.wq_a, attn.wq_b, attn.wkv, attn.wo_a, attn.wo_b,
//                             indexer.wq_b, main_proj, engram.wkv and of all experts
//   2^-4                      every other one
//
// Codes and scales. k is the length of a row of the matrix: for a scale, of NAME.weight. Values of
// matrices have an rms of about r = 1/sqrt(k), so that activations stay near 1 through any number
// of layers; those of *.engram.embed, which is read by rows, of about r = 1.
//   E4M3 weights              byte j of bits_i is byte 8 i + j; a code 0x7f or 0xff (NaN) becomes
//                             0x7e or 0xfe
//   E2M1 (I8, U8) weights     byte j of bits_i is byte 8 i + j
//   E8M0 *.scale              127 + e - (bits_i >> 63), e = round(log2(r / q))
//   F32 *.weight_scale_inv    f32(3/4 + u_i / 4) * 2^e, the same e
//   E4M3 *.weight_scale       0x68 + (bits_i >> 60): 64 to 240
//   F32 *.weight_scale_2      f32(1 + u_0 / 4) * 2^round(log2(r / (q * 148.3)))
//   F32 *.input_scale         2^-8
// q is the rms of a code drawn evenly: 107 for E4M3, 2.926 for E2M1. round(x) = floor(x + 1/2).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/float_types.h"
#include "models/stored_format.h"
#include "tensor/exec_context.h"

namespace tessera::deepseek_v41 {

constexpr uint64_t kFnvStart = 0xCBF29CE484222325U;
uint64_t fnv(std::span<const std::byte> bytes, uint64_t start = kFnvStart);

// The numbers of one tensor.
class SyntheticStream {
 public:
  SyntheticStream(std::string_view tensor, uint64_t seed);

  uint64_t key() const { return key_; }
  uint64_t bits(int64_t index) const;
  int32_t integer(int64_t index) const {  // u_i * 2^23
    return static_cast<int32_t>(bits(index) >> 40) - (1 << 23);
  }
  float unit(int64_t index) const { return static_cast<float>(integer(index)) * 0x1p-23f; }

 private:
  uint64_t key_;
};

// The values of one tensor by the rules above, any part of it at a time.
class SyntheticTensor {
 public:
  // `weight`: NAME.weight for a scale NAME.*, otherwise the tensor itself. Throws
  // Error{unsupported} for a type without a rule.
  SyntheticTensor(const TensorSpec& tensor, const TensorSpec& weight, uint64_t seed);

  // Elements [first, ...) as a checkpoint stores them, as many as `out` has room for; its size is a
  // multiple of the element's.
  void fill(int64_t first, std::span<std::byte> out) const noexcept;
  // The same, shared by the threads.
  void fill(ThreadPool& threads, int64_t first, std::span<std::byte> out) const;

 private:
  enum class Rule { bf16, f16, f32, e4m3, packed, e8m0, scale_e4m3, constant };

  void choose_numbers(std::string_view name, DType dtype, int64_t inputs);
  void choose_scale(std::string_view name, DType dtype, double codes_rms, double values_rms);
  void fill_codes(int64_t first, std::span<std::byte> out) const noexcept;
  template <typename T, typename Make>
  void fill_elements(int64_t first, std::span<std::byte> out, const Make& make) const noexcept;

  SyntheticStream stream_;
  Rule rule_ = Rule::f32;
  int64_t element_bytes_;
  // Numbers: (offset + amplitude * u) * factor. e8m0: the larger of the two codes.
  float offset_ = 0;
  float amplitude_ = 1;
  float factor_ = 1;
  int code_ = 0;
};

// The bf16 values of a tensor of that name, whatever it is.
void synthesize(ExecContext& ctx, std::string_view tensor, uint64_t seed, std::span<bf16> out);

}  // namespace tessera::deepseek_v41
