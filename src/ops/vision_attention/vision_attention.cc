#include "ops/vision_attention/vision_attention.h"

#include "base/check.h"
#include "ops/vision_attention/tiles.h"

namespace tessera {
namespace {

template <typename T>
void tiled_avx2(ExecContext& ctx, const VisionAttentionArgs<T>& args) {
  kernels::attend_tiled(ctx, args, kernels::kTileKernelsAvx2, false);
}

template <typename T>
void tiled_avx512(ExecContext& ctx, const VisionAttentionArgs<T>& args) {
  kernels::attend_tiled(ctx, args, kernels::kTileKernelsAvx512, kernels::is_dot_faster());
}

template <typename T>
constexpr Variant<VisionAttentionFn<T>> kVariants[] = {
    {IsaLevel::reference, kernels::attend_reference<T>},
    {IsaLevel::avx2, tiled_avx2<T>},
    {IsaLevel::avx512, tiled_avx512<T>}};

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
