#include "ops/rms_norm/rms_norm.h"

#include <array>

#include "ops/rms_norm/kernels.h"

namespace tessera {
namespace {

constexpr std::array<Variant<const RmsNormKernels*>, 3> kVariants = {
    {{IsaLevel::reference, &kRmsNormReference},
     {IsaLevel::avx2, &kRmsNormAvx2},
     {IsaLevel::avx512, &kRmsNormAvx512}}};

}  // namespace

void rms_norm(ExecContext& ctx, const bf16* x, const std::byte* weight, int64_t rows, int64_t width,
              float eps, bf16* y) {
  const RmsNormKernels* kernels = pick<const RmsNormKernels*>(ctx, kVariants);
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    kernels->row_bf16(&x[row * width].bits, weight, width, eps, &y[row * width].bits);
  });
}

void rms_norm(ExecContext& ctx, const float* x, const std::byte* weight, int64_t rows,
              int64_t width, float eps, float* y) {
  const RmsNormKernels* kernels = pick<const RmsNormKernels*>(ctx, kVariants);
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    kernels->row_f32(x + row * width, weight, width, eps, y + row * width);
  });
}

void reciprocal_rms(ExecContext& ctx, const bf16* x, int64_t rows, int64_t width, float eps,
                    float* rstd) {
  const RmsNormKernels* kernels = pick<const RmsNormKernels*>(ctx, kVariants);
  ctx.threads.parallel_for(rows, [&](int64_t row, int) {
    rstd[row] = kernels->rstd_bf16(&x[row * width].bits, width, eps);
  });
}

}  // namespace tessera
