#include "ops/vision_attention/vision_attention.h"

#include "base/check.h"
#include "ops/vision_attention/tiles.h"

namespace tessera {
namespace {

constexpr kernels::TileKernels kAvx2 = {kernels::multiply_ascending_f32_avx2,
                                        kernels::scale_and_max_avx2, kernels::exp_and_sum_avx2};
constexpr kernels::TileKernels kAvx512 = {kernels::multiply_ascending_f32_avx512,
                                          kernels::scale_and_max_avx512,
                                          kernels::exp_and_sum_avx512};

template <typename T, const kernels::TileKernels& kKernels>
void tiled(ExecContext& ctx, const VisionAttentionArgs<T>& args) {
  kernels::attend_tiled(ctx, args, kKernels);
}

template <typename T>
constexpr Variant<VisionAttentionFn<T>> kVariants[] = {
    {IsaLevel::reference, kernels::attend_reference<T>},
    {IsaLevel::avx2, tiled<T, kAvx2>},
    {IsaLevel::avx512, tiled<T, kAvx512>}};

template <typename T>
void attend(ExecContext& ctx, const VisionAttentionArgs<T>& args) {
  TESSERA_CHECK(args.head_dim > 0 && args.head_dim % 2 == 0 && args.heads > 0);
  TESSERA_CHECK(args.stride >= args.heads * args.head_dim);
  TESSERA_CHECK(args.o_stride >= args.heads * args.head_dim);
  TESSERA_CHECK(args.first_query >= 0 && args.first_query <= args.last_query &&
                args.last_query <= args.tokens);
  if (args.first_query < args.last_query) {
    pick(ctx, vision_attention_variants<T>())(ctx, args);
  }
}

}  // namespace

template <typename T>
std::span<const Variant<VisionAttentionFn<T>>> vision_attention_variants() {
  return kVariants<T>;
}
template std::span<const Variant<VisionAttentionFn<bf16>>> vision_attention_variants();
template std::span<const Variant<VisionAttentionFn<float>>> vision_attention_variants();

void vision_attention(ExecContext& ctx, const VisionAttentionArgs<bf16>& args) {
  attend(ctx, args);
}

void vision_attention(ExecContext& ctx, const VisionAttentionArgs<float>& args) {
  attend(ctx, args);
}

}  // namespace tessera
