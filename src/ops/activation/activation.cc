#include "ops/activation/activation.h"

#include <algorithm>
#include <array>

#include "base/checked_math.h"
#include "ops/activation/kernels.h"
#include "ops/scalar_math.h"

namespace tessera {
namespace {

constexpr std::array<Variant<const ActivationKernels*>, 3> kVariants = {
    {{IsaLevel::reference, &kActivationReference},
     {IsaLevel::avx2, &kActivationAvx2},
     {IsaLevel::avx512, &kActivationAvx512}}};

constexpr int64_t kChunk = 4096;  // elements per work item of flat loops

float gelu_f32(float x) {
  const float inner = static_cast<float>(erf_double(static_cast<double>(x * 0.70710678f)));
  return x * 0.5f * (1.0f + inner);
}

}  // namespace

void silu_mul(ExecContext& ctx, const bf16* x, int64_t rows, int64_t width, bf16* y) {
  const ActivationKernels* kernels = pick<const ActivationKernels*>(ctx, kVariants);
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    kernels->silu_mul_bf16(&x[row * 2 * width].bits, width, &y[row * width].bits);
  });
}

void silu_mul(ExecContext& ctx, const float* x, int64_t rows, int64_t width, float* y) {
  const ActivationKernels* kernels = pick<const ActivationKernels*>(ctx, kVariants);
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    kernels->silu_mul_f32(x + row * 2 * width, width, y + row * width);
  });
}

void swiglu(ExecContext& ctx, const bf16* gate, const bf16* up, const float* weight, int64_t rows,
            int64_t width, float limit, bf16* y) {
  const ActivationKernels* kernels = pick<const ActivationKernels*>(ctx, kVariants);
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    kernels->swiglu(&gate[row * width].bits, &up[row * width].bits,
                    weight != nullptr ? weight[row] : 1.0f, width, limit, &y[row * width].bits);
  });
}

void gelu(ExecContext& ctx, const bf16* x, int64_t count, bf16* y) {
  ctx.threads.parallel_for(ceil_div(count, kChunk), [&](int64_t chunk, int) {
    for (int64_t i = chunk * kChunk; i < std::min(count, (chunk + 1) * kChunk); ++i) {
      y[i] = to_bf16(gelu_f32(to_float(x[i])));
    }
  });
}

void gelu(ExecContext& ctx, const float* x, int64_t count, float* y) {
  ctx.threads.parallel_for(ceil_div(count, kChunk), [&](int64_t chunk, int) {
    for (int64_t i = chunk * kChunk; i < std::min(count, (chunk + 1) * kChunk); ++i) {
      y[i] = gelu_f32(x[i]);
    }
  });
}

void add(ExecContext& ctx, bf16* x, const bf16* y, int64_t count) {
  const ActivationKernels* kernels = pick<const ActivationKernels*>(ctx, kVariants);
  ctx.threads.parallel_for(ceil_div(count, kChunk), [&](int64_t chunk, int) {
    const int64_t first = chunk * kChunk;
    kernels->add_bf16(&x[first].bits, &y[first].bits, std::min(kChunk, count - first));
  });
}

void add(ExecContext& ctx, float* x, const float* y, int64_t count) {
  ctx.threads.parallel_for(ceil_div(count, kChunk), [&](int64_t chunk, int) {
    for (int64_t i = chunk * kChunk; i < std::min(count, (chunk + 1) * kChunk); ++i) {
      x[i] += y[i];
    }
  });
}

}  // namespace tessera
