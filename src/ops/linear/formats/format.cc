#include "ops/linear/formats/format.h"

#include <algorithm>

#include "base/check.h"
#include "base/checked_math.h"

namespace tessera {
namespace kernels {
namespace {

// In the order of Weight::format.
constexpr const Format* kFormats[] = {&kBf16Format,     &kF16Format,       &kF32Format,
                                      &kFp8BlockFormat, &kFp8ScaledFormat, &kMxfp4Format,
                                      &kNvfp4Format};
static_assert(std::size(kFormats) == std::variant_size_v<decltype(Weight::format)>);

// Stands for the scales of a format that multiplies sums instead: E8M0 1, for every input.
constexpr std::byte kScaleOne{127};
constexpr int64_t kAllInputs = int64_t{1} << 40;

}  // namespace

const Format& format_of(const Weight& weight) { return *kFormats[weight.format.index()]; }

UnpackArgs panel_source(const Weight& weight, int64_t panel) {
  const Format& format = format_of(weight);
  const WeightLayout layout = format.layout(weight);
  const int64_t row = panel * kPanelRows;
  UnpackArgs args{};
  args.codes = layout.codes + row * layout.row_bytes;
  args.row_bytes = layout.row_bytes;
  args.block = layout.block;
  args.rows = std::min(kPanelRows, weight.outputs - row);
  if (format.block_scale != nullptr) {
    args.scales = &kScaleOne;
    args.block = kAllInputs;
  } else if (layout.scales != nullptr) {
    args.scales = layout.scales + row / layout.scale_rows * layout.scale_row_bytes;
    args.scale_row_bytes = layout.scale_rows == 1 ? layout.scale_row_bytes : 0;
  }
  return args;
}

}  // namespace kernels

std::string_view format_name(const Weight& weight) { return kernels::format_of(weight).name; }

std::array<std::span<const std::byte>, 2> weight_bytes(const Weight& weight) {
  const kernels::WeightLayout layout = kernels::format_of(weight).layout(weight);
  const int64_t scale_rows =
      layout.scales != nullptr ? ceil_div(weight.outputs, layout.scale_rows) : 0;
  return {std::span(layout.codes, static_cast<size_t>(weight.outputs * layout.row_bytes)),
          std::span(layout.scales, static_cast<size_t>(scale_rows * layout.scale_row_bytes))};
}

int64_t rows_per_scale(const Weight& weight) {
  return kernels::format_of(weight).layout(weight).scale_rows;
}

Weight rows_of(const Weight& weight, int64_t first, int64_t count) {
  TESSERA_CHECK(first >= 0 && count >= 0 && first + count <= weight.outputs);
  const kernels::WeightLayout layout = kernels::format_of(weight).layout(weight);
  Weight part = weight;
  part.outputs = count;
  std::visit(
      [&](auto& format) {
        if (format.codes == nullptr) {
          return;
        }
        format.codes += first * layout.row_bytes;
        if constexpr (requires { format.scales; }) {
          TESSERA_CHECK(first % layout.scale_rows == 0);
          format.scales += first / layout.scale_rows * layout.scale_row_bytes;
        }
      },
      part.format);
  return part;
}

}  // namespace tessera
