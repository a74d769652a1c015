#include "ops/hyper_connections/hyper_connections.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/checked_math.h"
#include "ops/hyper_connections/kernels.h"
#include "ops/scalar_math.h"
#include "ops/vector_math.h"

namespace tessera {
namespace {

constexpr std::array<Variant<const HyperConnectionKernels*>, 3> kVariants = {
    {{IsaLevel::reference, &kHyperConnectionReference},
     {IsaLevel::avx2, &kHyperConnectionAvx2},
     {IsaLevel::avx512, &kHyperConnectionAvx512}}};

float load_f32(const std::byte* p, int64_t i) {
  float value;
  std::memcpy(&value, p + 4 * i, 4);
  return value;
}

float sigmoid(float x) { return static_cast<float>(sigmoid_double(static_cast<double>(x))); }

using Matrix = float[kMaxCopies][kMaxCopies];

void divide_by_column_sums(Matrix& c, int64_t n, float eps) {
  for (int64_t k = 0; k < n; ++k) {
    float sum = 0;
    for (int64_t j = 0; j < n; ++j) {
      sum += c[j][k];
    }
    for (int64_t j = 0; j < n; ++j) {
      c[j][k] /= sum + eps;
    }
  }
}

void divide_by_row_sums(Matrix& c, int64_t n, float eps) {
  for (int64_t j = 0; j < n; ++j) {
    float sum = 0;
    for (int64_t k = 0; k < n; ++k) {
      sum += c[j][k];
    }
    for (int64_t k = 0; k < n; ++k) {
      c[j][k] /= sum + eps;
    }
  }
}

// Softmax over each row, then alternating normalisation; the column step comes last.
void sinkhorn(Matrix& c, int64_t n, int64_t iterations, float eps) {
  for (int64_t j = 0; j < n; ++j) {
    const float largest = *std::max_element(c[j], c[j] + n);
    float sum = 0;
    for (int64_t k = 0; k < n; ++k) {
      c[j][k] = exp_f32(c[j][k] - largest);
      sum += c[j][k];
    }
    for (int64_t k = 0; k < n; ++k) {
      c[j][k] = c[j][k] / sum + eps;
    }
  }
  divide_by_column_sums(c, n, eps);
  for (int64_t i = 1; i < iterations; ++i) {
    divide_by_row_sums(c, n, eps);
    divide_by_column_sums(c, n, eps);
  }
}

}  // namespace

void project_mixes(ExecContext& ctx, const bf16* x, int64_t rows, int64_t width,
                   const std::byte* fn, int64_t outputs, float* m) {
  const HyperConnectionKernels* kernels = pick<const HyperConnectionKernels*>(ctx, kVariants);
  ctx.threads.parallel_for(ceil_div(rows, kMixRowBlock) * outputs, [&](int64_t item, int) {
    const int64_t first = item / outputs * kMixRowBlock;
    const int64_t output = item % outputs;
    const int64_t count = std::min(kMixRowBlock, rows - first);
    const uint16_t* block[kMixRowBlock] = {};
    for (int64_t r = 0; r < count; ++r) {
      block[r] = &x[(first + r) * width].bits;
    }
    kernels->project(block, count, fn + output * width * 4, width, m + first * outputs + output,
                     outputs);
  });
}

void split_mixes(ExecContext& ctx, const HyperConnectionSpec& spec, const float* m,
                 const float* rstd, int64_t rows, const std::byte* scale, const std::byte* base,
                 float* pre, float* post, float* comb) {
  const int64_t n = spec.copies;
  TESSERA_CHECK(n >= 1 && n <= kMaxCopies);
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    float mix[(2 + kMaxCopies) * kMaxCopies];
    for (int64_t i = 0; i < (2 + n) * n; ++i) {
      mix[i] = m[row * (2 + n) * n + i] * rstd[row];
    }
    for (int64_t j = 0; j < n; ++j) {
      pre[row * n + j] = sigmoid(mix[j] * load_f32(scale, 0) + load_f32(base, j)) + spec.eps;
      post[row * n + j] = 2.0f * sigmoid(mix[n + j] * load_f32(scale, 1) + load_f32(base, n + j));
    }
    Matrix c;
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t k = 0; k < n; ++k) {
        const int64_t at = 2 * n + j * n + k;
        c[j][k] = mix[at] * load_f32(scale, 2) + load_f32(base, at);
      }
    }
    sinkhorn(c, n, spec.sinkhorn_iterations, spec.eps);
    for (int64_t j = 0; j < n; ++j) {
      std::copy(c[j], c[j] + n, comb + (row * n + j) * n);
    }
  });
}

void collapse(ExecContext& ctx, int64_t copies, const bf16* x, const float* pre, int64_t rows,
              int64_t width, bf16* y) {
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    const bf16* in = x + row * copies * width;
    for (int64_t i = 0; i < width; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < copies; ++j) {
        sum += pre[row * copies + j] * to_float(in[j * width + i]);
      }
      y[row * width + i] = to_bf16(sum);
    }
  });
}

void expand(ExecContext& ctx, int64_t copies, const bf16* y, const float* post, const float* comb,
            int64_t rows, int64_t width, bf16* x) {
  TESSERA_CHECK(copies <= kMaxCopies);
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    bf16* stream = x + row * copies * width;
    const float* c = comb + row * copies * copies;
    for (int64_t i = 0; i < width; ++i) {
      float old[kMaxCopies];
      for (int64_t j = 0; j < copies; ++j) {
        old[j] = to_float(stream[j * width + i]);
      }
      const float out = to_float(y[row * width + i]);
      for (int64_t k = 0; k < copies; ++k) {
        float mixed = 0;
        for (int64_t j = 0; j < copies; ++j) {
          mixed += c[j * copies + k] * old[j];
        }
        stream[k * width + i] = to_bf16(post[row * copies + k] * out + mixed);
      }
    }
  });
}

void mean_of_copies(ExecContext& ctx, int64_t copies, const bf16* x, int64_t rows, int64_t width,
                    bf16* y) {
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    const bf16* in = x + row * copies * width;
    for (int64_t i = 0; i < width; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < copies; ++j) {
        sum += to_float(in[j * width + i]);
      }
      y[row * width + i] = to_bf16(sum / static_cast<float>(copies));
    }
  });
}

}  // namespace tessera
