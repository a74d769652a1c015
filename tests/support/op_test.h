// A context for operation tests, and random rows.
#pragma once

#include <random>
#include <vector>

#include "base/float_types.h"
#include "tensor/exec_context.h"

namespace tessera::test {

struct OpContext {
  explicit OpContext(int threads = 2, IsaLevel isa = active_isa())
      : pool(threads), ctx{.threads = pool, .scratch = arena, .isa = isa, .trace = {}} {}

  ThreadPool pool;
  Arena arena;
  ExecContext ctx;
};

inline std::vector<bf16> random_bf16(int64_t count, unsigned seed, float scale = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<bf16> out(static_cast<size_t>(count));
  for (bf16& value : out) {
    value = to_bf16(normal(random));
  }
  return out;
}

inline std::vector<float> random_f32(int64_t count, unsigned seed, float scale = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& value : out) {
    value = normal(random);
  }
  return out;
}

}  // namespace tessera::test
