#include "ops/engram/engram.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/check.h"
#include "ops/vector_math.h"

namespace tessera {
namespace {

bool is_prime(int64_t n) {
  if (n < 2) {
    return false;
  }
  for (int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) {
      return false;
    }
  }
  return true;
}

__extension__ typedef unsigned __int128 uint128;

// numpy.random.SeedSequence(entropy).generate_state(4, uint64).
class SeedSequence {
 public:
  explicit SeedSequence(uint64_t entropy) {
    std::vector<uint32_t> words;
    do {
      words.push_back(static_cast<uint32_t>(entropy));
      entropy >>= 32;
    } while (entropy != 0);
    TESSERA_CHECK(words.size() <= pool_.size());
    for (size_t i = 0; i < pool_.size(); ++i) {
      pool_[i] = hash(i < words.size() ? words[i] : 0);
    }
    for (size_t source = 0; source < pool_.size(); ++source) {
      for (size_t target = 0; target < pool_.size(); ++target) {
        if (source != target) {
          pool_[target] = mix(pool_[target], hash(pool_[source]));
        }
      }
    }
  }

  std::array<uint64_t, 4> state() const {
    uint32_t constant = 0x8b51f9ddU;
    std::array<uint64_t, 4> out{};
    for (size_t i = 0; i < 8; ++i) {
      uint32_t v = pool_[i % 4] ^ constant;
      constant *= 0x58f38dedU;
      v *= constant;
      v ^= v >> 16;
      out[i / 2] |= static_cast<uint64_t>(v) << (32 * (i % 2));
    }
    return out;
  }

 private:
  uint32_t hash(uint32_t v) {
    v ^= constant_;
    constant_ *= 0x931e8875U;
    v *= constant_;
    return v ^ (v >> 16);
  }
  static uint32_t mix(uint32_t x, uint32_t y) {
    const uint32_t r = 0xca01f9ddU * x - 0x4973f715U * y;
    return r ^ (r >> 16);
  }

  uint32_t constant_ = 0x43b0d7e5U;
  std::array<uint32_t, 4> pool_{};
};

// PCG64 (XSL-RR 128/64), O'Neill 2014, as numpy seeds it.
class Pcg64 {
 public:
  explicit Pcg64(const std::array<uint64_t, 4>& seed) {
    const uint128 init = (static_cast<uint128>(seed[0]) << 64) | seed[1];
    increment_ = (((static_cast<uint128>(seed[2]) << 64) | seed[3]) << 1) | 1U;
    advance();
    state_ += init;
    advance();
  }

  uint64_t next() {
    advance();
    const uint64_t x = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
    const int rotation = static_cast<int>(state_ >> 122);
    return (x >> rotation) | (x << ((64 - rotation) & 63));
  }

  // Uniform in [0, n), Lemire 2019.
  uint64_t below(uint64_t n) {
    uint128 m = static_cast<uint128>(next()) * n;
    if (static_cast<uint64_t>(m) < n) {
      const uint64_t threshold = (0 - n) % n;
      while (static_cast<uint64_t>(m) < threshold) {
        m = static_cast<uint128>(next()) * n;
      }
    }
    return static_cast<uint64_t>(m >> 64);
  }

 private:
  void advance() {
    constexpr uint128 kMultiplier =
        (static_cast<uint128>(0x2360ed051fc65da4ULL) << 64) | 0x4385df649fccf645ULL;
    state_ = state_ * kMultiplier + increment_;
  }

  uint128 state_ = 0;
  uint128 increment_ = 0;
};

float load_bf16(const std::byte* p, int64_t i) {
  uint16_t bits;
  std::memcpy(&bits, p + 2 * i, 2);
  return widen_bf16(bits);
}

double fold(double (&lanes)[kLanes]) {
  for (int64_t step = kLanes / 2; step > 0; step /= 2) {
    for (int64_t l = 0; l < step; ++l) {
      lanes[l] += lanes[l + step];
    }
  }
  return lanes[0];
}

// The gate of one copy of one row.
float gate_of(const bf16* h, const bf16* key, const std::byte* q_weight, const std::byte* k_weight,
              int64_t width, float eps) noexcept {
  double hh[kLanes] = {}, kk[kLanes] = {}, hk[kLanes] = {};
  for (int64_t i = 0; i < width; ++i) {
    const int64_t l = i % kLanes;
    const float a = to_float(h[i]);
    const float b = to_float(key[i]);
    const float weight = load_bf16(q_weight, i) * load_bf16(k_weight, i);
    hh[l] += static_cast<double>(a) * static_cast<double>(a);
    kk[l] += static_cast<double>(b) * static_cast<double>(b);
    hk[l] += static_cast<double>((a * weight) * b);
  }
  const double n = static_cast<double>(width);
  const double rstd = 1.0 / std::sqrt(fold(hh) / n + static_cast<double>(eps)) /
                      std::sqrt(fold(kk) / n + static_cast<double>(eps));
  const float dot = static_cast<float>(fold(hk) * rstd / std::sqrt(n));
  const float magnitude = std::fabs(dot) > 1e-6f ? std::fabs(dot) : 1e-6f;
  return sigmoid_f32(std::copysign(__builtin_sqrtf(magnitude), dot));
}

}  // namespace

std::vector<std::vector<int64_t>> engram_primes(int64_t layers, int64_t max_ngram, int64_t heads,
                                                int64_t vocab_size) {
  std::set<int64_t> seen;
  std::vector<std::vector<int64_t>> all;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<int64_t> primes;
    for (int64_t size = 2; size <= max_ngram; ++size) {
      int64_t candidate = vocab_size - 1;
      for (int64_t head = 0; head < heads; ++head) {
        do {
          ++candidate;
        } while (seen.count(candidate) != 0 || !is_prime(candidate));
        seen.insert(candidate);
        primes.push_back(candidate);
      }
    }
    all.push_back(std::move(primes));
  }
  return all;
}

std::vector<int64_t> engram_multipliers(int64_t layer_id, int64_t count, int64_t classes) {
  const int64_t bound = std::max<int64_t>(1, (INT64_MAX / classes) / 2);
  Pcg64 random(SeedSequence(static_cast<uint64_t>(10007 * layer_id)).state());
  std::vector<int64_t> multipliers;
  for (int64_t i = 0; i < count; ++i) {
    multipliers.push_back(static_cast<int64_t>(random.below(static_cast<uint64_t>(bound))) * 2 + 1);
  }
  return multipliers;
}

void engram_rows(const EngramAddressing& addressing, const int32_t* history,
                 int64_t* ids) noexcept {
  uint64_t hash = 0;
  bool is_blocked = false;
  for (int64_t back = 0; back < addressing.max_ngram; ++back) {
    is_blocked = is_blocked || history[back] == kDeadClass;
    const int64_t token = is_blocked ? addressing.pad_class : history[back];
    hash ^= static_cast<uint64_t>(token * addressing.multipliers[static_cast<size_t>(back)]);
    for (int64_t head = 0; back > 0 && head < addressing.heads; ++head) {
      const size_t column = static_cast<size_t>((back - 1) * addressing.heads + head);
      ids[column] = static_cast<int64_t>(hash % static_cast<uint64_t>(addressing.primes[column])) +
                    addressing.offsets[column];
    }
  }
}

void engram_row(const EngramTable& table, int64_t id, bf16* out) noexcept {
  const std::byte* codes = table.codes + id * table.code_row_bytes();
  if (table.format == EngramTable::Format::bf16) {
    std::memcpy(out, codes, static_cast<size_t>(table.code_row_bytes()));
    return;
  }
  const std::byte* scales = table.scales + id * table.scale_row_bytes();
  for (int64_t i = 0; i < table.width; ++i) {
    const float scale = e8m0_to_float(std::to_integer<uint8_t>(scales[i / 32]));
    if (table.format == EngramTable::Format::e4m3) {
      out[i] = to_bf16(e4m3_to_float(std::to_integer<uint8_t>(codes[i])) * scale);
      continue;
    }
    const uint8_t both = std::to_integer<uint8_t>(codes[i / 2]);
    const uint8_t code = static_cast<uint8_t>((i & 1) != 0 ? both >> 4 : both & 0xf);
    out[i] = to_bf16(code == 8 ? 0.0f : e2m1_to_float(code) * scale);
  }
}

void engram_lookup(ExecContext& ctx, const EngramTable& table, const int64_t* ids, int64_t rows,
                   int64_t columns, bf16* y) {
  ctx.threads.parallel_for(rows * columns,
                           [&](int64_t i, int) { engram_row(table, ids[i], y + i * table.width); });
}

void engram_gate(ExecContext& ctx, const EngramGateArgs& a) {
  ctx.threads.parallel_for(a.rows, [&](int64_t row, int) {
    if (a.is_dead[row] != 0) {
      return;
    }
    const bf16* keys = a.kv + row * (a.copies + 1) * a.width;
    const bf16* value = keys + a.copies * a.width;
    for (int64_t c = 0; c < a.copies; ++c) {
      bf16* h = a.stream + (row * a.copies + c) * a.width;
      const float gate = gate_of(h, keys + c * a.width, a.q_weight + 2 * c * a.width,
                                 a.k_weight + 2 * c * a.width, a.width, a.eps);
      for (int64_t i = 0; i < a.width; ++i) {
        h[i] = to_bf16(to_float(h[i]) + gate * to_float(value[i]));
      }
    }
  });
}

}  // namespace tessera
