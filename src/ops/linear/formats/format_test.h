// What the tests of all formats share: every level's panel against the reference's, bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "base/aligned_buffer.h"
#include "ops/linear/variants.h"

namespace tessera::test {

// Unpacks inputs [first, first + count) of panel `panel` by every variant and compares the lanes
// that exist.
inline void expect_equal_panels(const Weight& weight, kernels::PanelKind kind, int64_t panel,
                                int64_t first, int64_t count) {
  using namespace kernels;
  const ScopedFlushSubnormals flush;
  const int64_t padded = count + (count & 1);
  const int64_t bytes = padded * (kind == PanelKind::f32 ? kF32PanelBytes : kPairPanelBytes);
  AlignedBuffer expected(bytes), ours(bytes);
  const std::span<const Variant<UnpackFn>> variants = format_of(weight).panels(kind);
  UnpackArgs args = panel_source(weight, panel);
  args.first = first;
  args.count = count;
  args.panel = expected.data();
  variants[0].function(args);
  args.panel = ours.data();
  for (const Variant<UnpackFn>& variant : variants) {
    if (variant.isa > detected_isa()) {
      continue;
    }
    std::memset(ours.data(), 0xee, static_cast<size_t>(bytes));
    variant.function(args);
    const uint32_t* a = reinterpret_cast<const uint32_t*>(expected.data());
    const uint32_t* b = reinterpret_cast<const uint32_t*>(ours.data());
    for (int64_t i = 0; i < bytes / 4; ++i) {
      if (i % kPanelRows < args.rows) {
        ASSERT_EQ(a[i], b[i]) << isa_name(variant.isa) << " panel " << panel << " first " << first
                              << " count " << count << " dword " << i;
      }
    }
  }
}

// The same for ranges of inputs of all lengths, both kinds of panel and every panel of the weight.
inline void expect_equal_panels_of_all_sizes(const Weight& weight) {
  using kernels::PanelKind;
  for (const PanelKind kind : {PanelKind::f32, PanelKind::pairs}) {
    if (kernels::format_of(weight).panels(kind).empty()) {
      continue;
    }
    for (int64_t panel = 0; panel * kernels::kPanelRows < weight.outputs; ++panel) {
      for (int64_t first = 0; first < weight.inputs; first += 32) {
        for (int64_t count = 1; first + count <= weight.inputs; count += count < 70 ? 1 : 29) {
          expect_equal_panels(weight, kind, panel, first, count);
        }
      }
    }
  }
}

}  // namespace tessera::test
