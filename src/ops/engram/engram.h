// Engram: a memory addressed by hashed n-grams of token classes, gated into the residual streams.
// Source: deepseek_v41 specification 6 (reference: engram.py). Integers are exact 64-bit
// throughout.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/float_types.h"
#include "tensor/exec_context.h"

namespace tessera {

constexpr int64_t kMaxNgram = 8;
constexpr int32_t kDeadClass = -1;  // a position that no n-gram may cross (image spans)

// Addressing of one memory layer.
struct EngramAddressing {
  int64_t max_ngram = 0;                         // sizes 2 .. max_ngram
  int64_t heads = 0;                             // hash heads per size
  int32_t pad_class = 0;                         // stands for blocked and missing positions
  std::array<int64_t, kMaxNgram> multipliers{};  // odd; class * multiplier < 2^63
  std::vector<int64_t> primes;                   // [(max_ngram - 1) * heads]
  std::vector<int64_t> offsets;                  // first table row of each column

  int64_t columns() const { return (max_ngram - 1) * heads; }
};

// Prime buckets of all memory layers: layer by layer, size by size, `heads` times the smallest
// prime above the previous one of that size (from vocab_size - 1) that nobody used before.
std::vector<std::vector<int64_t>> engram_primes(int64_t layers, int64_t max_ngram, int64_t heads,
                                                int64_t vocab_size);

// The odd multipliers of a memory layer: numpy's default_rng(10007 * layer_id).integers(0, bound,
// n) * 2 + 1 with bound = max(1, ((2^63 - 1) / classes) / 2); PCG64 seeded by SeedSequence,
// Lemire's method.
std::vector<int64_t> engram_multipliers(int64_t layer_id, int64_t count, int64_t classes);

// Table rows of one position. history [max_ngram]: class of the position itself, of the one before,
// ...; a position before the sequence start counts like a dead one. ids [columns()].
void engram_rows(const EngramAddressing& addressing, const int32_t* history, int64_t* ids) noexcept;

// The table of a memory as checkpoints store it, any alignment. Values as in ops/linear: code times
// 2^(scale-127), one scale per row and 32 columns.
struct EngramTable {
  enum class Format { e4m3, e2m1, bf16 };
  Format format = Format::e4m3;
  const std::byte* codes = nullptr;   // [rows, code_row_bytes()]
  const std::byte* scales = nullptr;  // E8M0 [rows, scale_row_bytes()]; nullptr for bf16
  int64_t rows = 0;
  int64_t width = 0;  // a multiple of 32

  int64_t code_row_bytes() const {
    return format == Format::e4m3 ? width : format == Format::e2m1 ? width / 2 : width * 2;
  }
  int64_t scale_row_bytes() const { return format == Format::bf16 ? 0 : width / 32; }
};

// Row `id` of a table to bf16 [table.width].
void engram_row(const EngramTable& table, int64_t id, bf16* out) noexcept;

// y [rows, columns * table.width] bf16: the table's rows `ids` [rows, columns].
void engram_lookup(ExecContext& ctx, const EngramTable& table, const int64_t* ids, int64_t rows,
                   int64_t columns, bf16* y);

struct EngramGateArgs {
  bf16* stream = nullptr;    // [rows, copies, width], in place
  const bf16* kv = nullptr;  // [rows, (copies + 1) * width]: keys of the copies, then the value
  const std::byte* q_weight = nullptr;  // bf16 [copies, width], any alignment
  const std::byte* k_weight = nullptr;
  const uint8_t* is_dead = nullptr;  // [rows]: 1 = the row keeps its stream
  int64_t rows = 0;
  int64_t copies = 0;
  int64_t width = 0;
  float eps = 0;
};

// h_c += gate_c * value with gate_c = sigmoid( copysign( sqrt(max(|d|, 1e-6)), d ) ),
//   d = (sum_i (h_i * w_i) * key_i) * (rstd(h_c) * rstd(key_c)) * width^-0.5,  w = q_weight *
//   k_weight
// Products are fp32, sums double in the 16-lane order of ops/rms_norm, d is rounded to fp32; one
// rounding to bf16 at the end.
void engram_gate(ExecContext& ctx, const EngramGateArgs& args);

}  // namespace tessera
