#include "ops/linear/variants.h"

#include <algorithm>

#include "ops/linear/formats/bf16/bf16_format.h"
#include "ops/linear/formats/f32/f32_format.h"
#include "ops/linear/formats/fp8_block/fp8_block_format.h"
#include "ops/linear/formats/mxfp4/mxfp4_format.h"

namespace tessera::kernels {
namespace {

using Unpack = Variant<UnpackFn>;
using Multiply = Variant<MultiplyFn>;
using Store = Variant<StoreFn>;

constexpr Unpack kBf16[] = {{IsaLevel::reference, unpack_bf16_f32_reference},
                            {IsaLevel::avx2, unpack_bf16_f32_avx2},
                            {IsaLevel::avx512, unpack_bf16_f32_avx512}};
constexpr Unpack kBf16Pairs[] = {{IsaLevel::reference, unpack_bf16_pairs_reference},
                                 {IsaLevel::avx512, unpack_bf16_pairs_avx512}};
constexpr Unpack kF32[] = {{IsaLevel::reference, unpack_f32_f32_reference},
                           {IsaLevel::avx2, unpack_f32_f32_avx2},
                           {IsaLevel::avx512, unpack_f32_f32_avx512}};
constexpr Unpack kFp8Block[] = {{IsaLevel::reference, unpack_fp8_block_f32_reference},
                                {IsaLevel::avx2, unpack_fp8_block_f32_avx2},
                                {IsaLevel::avx512, unpack_fp8_block_f32_avx512}};
constexpr Unpack kFp8BlockPairs[] = {{IsaLevel::reference, unpack_fp8_block_pairs_reference},
                                     {IsaLevel::avx512, unpack_fp8_block_pairs_avx512}};
constexpr Unpack kMxfp4[] = {{IsaLevel::reference, unpack_mxfp4_f32_reference},
                             {IsaLevel::avx2, unpack_mxfp4_f32_avx2},
                             {IsaLevel::avx512, unpack_mxfp4_f32_avx512}};
constexpr Unpack kMxfp4Pairs[] = {{IsaLevel::reference, unpack_mxfp4_pairs_reference},
                                  {IsaLevel::avx512, unpack_mxfp4_pairs_avx512}};
constexpr Multiply kMultiply[] = {{IsaLevel::reference, multiply_f32_reference},
                                  {IsaLevel::avx2, multiply_f32_avx2},
                                  {IsaLevel::avx512, multiply_f32_avx512}};
constexpr Multiply kMultiplyPairs[] = {{IsaLevel::reference, multiply_pairs_reference},
                                       {IsaLevel::avx512, multiply_pairs_avx512}};
constexpr Store kStoreBf16[] = {{IsaLevel::reference, store_bf16_reference},
                                {IsaLevel::avx2, store_bf16_avx2},
                                {IsaLevel::avx512, store_bf16_avx512}};
constexpr Store kStoreF32[] = {{IsaLevel::reference, store_f32_reference}};

}  // namespace

std::span<const Unpack> unpack_bf16_variants(PanelKind kind) {
  return kind == PanelKind::f32 ? std::span<const Unpack>(kBf16)
                                : std::span<const Unpack>(kBf16Pairs);
}

std::span<const Unpack> unpack_f32_variants() { return kF32; }

std::span<const Unpack> unpack_fp8_block_variants(PanelKind kind) {
  return kind == PanelKind::f32 ? std::span<const Unpack>(kFp8Block)
                                : std::span<const Unpack>(kFp8BlockPairs);
}

std::span<const Unpack> unpack_mxfp4_variants(PanelKind kind) {
  return kind == PanelKind::f32 ? std::span<const Unpack>(kMxfp4)
                                : std::span<const Unpack>(kMxfp4Pairs);
}

std::span<const Multiply> multiply_variants(PanelKind kind) {
  return kind == PanelKind::f32 ? std::span<const Multiply>(kMultiply)
                                : std::span<const Multiply>(kMultiplyPairs);
}

std::span<const Store> store_bf16_variants() { return kStoreBf16; }

std::span<const Store> store_f32_variants() { return kStoreF32; }

std::span<const Unpack> unpack_variants(const Weight& weight, PanelKind kind) {
  if (std::holds_alternative<WeightBf16>(weight.format)) {
    return unpack_bf16_variants(kind);
  }
  if (std::holds_alternative<WeightFp8Block>(weight.format)) {
    return unpack_fp8_block_variants(kind);
  }
  if (std::holds_alternative<WeightMxfp4>(weight.format)) {
    return unpack_mxfp4_variants(kind);
  }
  TESSERA_CHECK(kind == PanelKind::f32);
  return unpack_f32_variants();
}

FusedFn fused_kernel(const Weight& weight, IsaLevel isa) {
  // Other input counts are rare: the panels take care of them.
  if (isa < IsaLevel::avx512 || weight.inputs % 32 != 0) {
    return nullptr;
  }
  if (std::holds_alternative<WeightFp8Block>(weight.format)) {
    return fused_fp8_block_avx512;
  }
  return std::holds_alternative<WeightMxfp4>(weight.format) ? fused_mxfp4_avx512 : nullptr;
}

UnpackArgs panel_source(const Weight& weight, int64_t panel) {
  const int64_t row = panel * kPanelRows;
  UnpackArgs args{};
  args.block = 32;
  args.rows = std::min(kPanelRows, weight.outputs - row);
  if (const WeightBf16* bf16_weight = std::get_if<WeightBf16>(&weight.format)) {
    args.row_bytes = weight.inputs * 2;
    args.codes = bf16_weight->data + row * args.row_bytes;
  } else if (const WeightF32* f32 = std::get_if<WeightF32>(&weight.format)) {
    args.row_bytes = weight.inputs * 4;
    args.codes = f32->data + row * args.row_bytes;
  } else if (const WeightFp8Block* fp8 = std::get_if<WeightFp8Block>(&weight.format)) {
    args.row_bytes = weight.inputs;
    args.codes = fp8->codes + row * args.row_bytes;
    args.block = fp8->block;
    args.scales = fp8->scales + row / fp8->block * ((weight.inputs + fp8->block - 1) / fp8->block);
  } else {
    const WeightMxfp4& mxfp4 = std::get<WeightMxfp4>(weight.format);
    args.row_bytes = weight.inputs / 2;
    args.codes = mxfp4.codes + row * args.row_bytes;
    args.scale_row_bytes = weight.inputs / 32;
    args.scales = mxfp4.scales + row * args.scale_row_bytes;
  }
  return args;
}

}  // namespace tessera::kernels
