// Weights that need no checkpoint: numbers of a counter-based generator, which any program can make
// again. The vision tower's values are those of tests/golden/v41-tower-full (README.md there).
//
// All arithmetic is modulo 2^64, G = 0x9E3779B97F4A7C15:
//   mix(x)  z = x + G;  z = (z ^ z>>30) * 0xBF58476D1CE4E5B9;  z = (z ^ z>>27) *
//   0x94D049BB133111EB;
//           z ^ z>>31
//   fnv(s)  h = 0xCBF29CE484222325;  for each byte b:  h = (h ^ b) * 0x100000001B3
//   key     mix(seed ^ fnv(tensor name)),  bits_i = mix(key + i * G),  i = row-major element index
//   u_i     (int(bits_i >> 40) - 2^23) * 2^-23: exact in fp32, in [-1, 1)
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/float_types.h"
#include "models/deepseek_v41/config.h"
#include "models/deepseek_v41/model.h"
#include "models/deepseek_v41/weights.h"
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

// out_i = bf16(a * u_i), rounded once; a = 2^-3 for *.bias, 2^-6 for aligner.w1.weight, 2^-5 for
// aligner.w2.weight and *.mlp.w2.weight, 2^-4 for every other name. A name with `norm` in it is a
// gain: bf16(f32(1 + u_i / 4)).
void synthesize(ExecContext& ctx, std::string_view tensor, uint64_t seed, std::span<bf16> out);

// Owner of generated weights; parts that were not added stay empty in weights(). Tensor names and
// shapes are the checkpoint's.
class SyntheticWeights {
 public:
  explicit SyntheticWeights(uint64_t seed = 1) : seed_(seed) {}

  // The tower, the aligner and the three image delimiters, all bf16 as above.
  void add_vision(ExecContext& ctx, const Config& config);

  // Embedding, all text layers, head. No Engram memory, no draft stages: `config` must have none
  // (see text_excerpt). bf16 tensors as above. F32: hc_*_fn 2^-8 * u, hc_*_scale 1 + u/4, all
  // others 2^-3 * u. FP8 and FP4: every code but NaN, scales that make the values' rms about
  // 1/sqrt(inputs), so that activations stay near 1 through any number of layers.
  void add_text(ExecContext& ctx, const Config& config);

  const Weights& weights() const { return weights_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* allocate(int64_t bytes);
  const std::byte* bf16_values(ExecContext& ctx, const std::string& tensor, int64_t count);
  const std::byte* f32_values(ExecContext& ctx, const std::string& tensor, int64_t count,
                              float offset, float amplitude);
  const std::byte* codes(ExecContext& ctx, const std::string& tensor, int64_t bytes, bool is_e4m3);
  const std::byte* scales(ExecContext& ctx, const std::string& tensor, int64_t count,
                          double values_rms, int64_t inputs);
  Linear dense(ExecContext& ctx, const std::string& name, int64_t outputs, int64_t inputs,
               bool has_bias = false);
  Linear fp8(ExecContext& ctx, const std::string& name, int64_t outputs, int64_t inputs,
             int64_t block);
  Linear fp4(ExecContext& ctx, const std::string& name, int64_t outputs, int64_t inputs);
  MixWeights mix(ExecContext& ctx, const std::string& prefix, const Config& config);
  AttentionWeights attention(ExecContext& ctx, const std::string& prefix, const Config& config,
                             int64_t layer);
  MoeWeights mixture(ExecContext& ctx, const std::string& prefix, const Config& config);

  uint64_t seed_;
  std::vector<AlignedBuffer> memory_;
  int64_t bytes_ = 0;
  Weights weights_;
};

// What the tower and the forward pass compute with. `weights` outlives it.
Network synthetic_network(const Config& config, const SyntheticWeights& weights);

// The same model without picture, Engram and draft parts: what add_text() can make.
Config text_only(const Config& config);

// A text stack of `layers` layers of the same widths, without picture, Engram and draft parts:
// layer 0 is a kv and index source of ratio 2, as layer 2 of the release, the others read it.
struct TextExcerpt {
  int64_t layers = 1;
  int64_t experts = 384;  // per layer; at least the active ones
  int64_t vocab = 1024;
};
Config text_excerpt(const Config& config, const TextExcerpt& excerpt);

}  // namespace tessera::deepseek_v41
