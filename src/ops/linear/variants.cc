#include "ops/linear/variants.h"

namespace tessera::kernels {
namespace {

constexpr Variant<MultiplyFn> kMultiply[] = {{IsaLevel::reference, multiply_f32_reference},
                                             {IsaLevel::avx2, multiply_f32_avx2},
                                             {IsaLevel::avx512, multiply_f32_avx512}};
constexpr Variant<MultiplyFn> kMultiplyPairs[] = {{IsaLevel::reference, multiply_pairs_reference},
                                                  {IsaLevel::avx512, multiply_pairs_avx512}};
constexpr Variant<FoldFn> kFold[] = {{IsaLevel::reference, fold_reference},
                                     {IsaLevel::avx2, fold_avx2}};
constexpr Variant<StoreFn> kStoreBf16[] = {{IsaLevel::reference, store_bf16_reference},
                                           {IsaLevel::avx2, store_bf16_avx2},
                                           {IsaLevel::avx512, store_bf16_avx512}};
constexpr Variant<StoreFn> kStoreF32[] = {{IsaLevel::reference, store_f32_reference}};

}  // namespace

std::span<const Variant<MultiplyFn>> multiply_variants(PanelKind kind) {
  return kind == PanelKind::f32 ? std::span<const Variant<MultiplyFn>>(kMultiply)
                                : std::span<const Variant<MultiplyFn>>(kMultiplyPairs);
}

std::span<const Variant<FoldFn>> fold_variants() { return kFold; }

std::span<const Variant<StoreFn>> store_bf16_variants() { return kStoreBf16; }

std::span<const Variant<StoreFn>> store_f32_variants() { return kStoreF32; }

FusedFn fused_kernel(const Weight& weight, IsaLevel isa) {
  // Other input counts are rare: the panels take care of them.
  const bool is_usable = isa >= IsaLevel::avx512 && weight.inputs % 32 == 0;
  return is_usable ? format_of(weight).fused_avx512 : nullptr;
}

}  // namespace tessera::kernels
