#include "ops/compressor/compressor.h"

#include <algorithm>

#include "base/check.h"
#include "ops/vector_math.h"

namespace tessera {
namespace {
constexpr int64_t kMaxRatio = 8;
}

void pool_groups(ExecContext& ctx, std::span<const float* const> kv,
                 std::span<const float* const> score, int64_t ratio, int64_t width, bf16* latent) {
  TESSERA_CHECK(ratio >= 1 && ratio <= kMaxRatio);
  TESSERA_CHECK(kv.size() == score.size() && static_cast<int64_t>(kv.size()) % ratio == 0);
  const int64_t groups = static_cast<int64_t>(kv.size()) / ratio;
  ctx.threads.parallel_for(groups, [&](int64_t group, int) {
    const float* const* values = kv.data() + group * ratio;
    const float* const* scores = score.data() + group * ratio;
    for (int64_t i = 0; i < width; ++i) {
      float largest = scores[0][i];
      for (int64_t r = 1; r < ratio; ++r) {
        largest = std::max(largest, scores[r][i]);
      }
      float weight[kMaxRatio];
      float sum = 0;
      for (int64_t r = 0; r < ratio; ++r) {
        weight[r] = exp_f32(scores[r][i] - largest);
        sum += weight[r];
      }
      float pooled = 0;
      for (int64_t r = 0; r < ratio; ++r) {
        pooled += values[r][i] * (weight[r] / sum);
      }
      latent[group * width + i] = to_bf16(pooled);
    }
  });
}

}  // namespace tessera
