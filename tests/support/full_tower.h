// The vision tower at its released size with generated weights, compared with the traces of
// tests/golden/v41-tower-full. What is generated, and where the limits come from: README.md there.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "models/deepseek_v41/image_plan.h"
#include "models/deepseek_v41/synthetic.h"
#include "models/deepseek_v41/vision.h"
#include "tests/support/json_lines.h"
#include "tests/support/op_test.h"
#include "trace/sinks.h"

namespace tessera::test {

inline deepseek_v41::Config released_config() {
  return deepseek_v41::read_config(TESSERA_SOURCE_DIR "/share/configs/deepseek_v41_flash.json");
}

// R = 7x + 3y, G = x*x + 5y, B = x*y + 11, modulo 256.
inline image::Image test_canvas(int64_t width, int64_t height) {
  image::Image canvas({width, height});
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      uint8_t* pixel = canvas.row(y) + x * image::Image::kChannels;
      pixel[0] = static_cast<uint8_t>(7 * x + 3 * y);
      pixel[1] = static_cast<uint8_t>(x * x + 5 * y);
      pixel[2] = static_cast<uint8_t>(x * y + 11);
    }
  }
  return canvas;
}

// Runs the tower with T activations on the test canvas and compares every tap of the trace.
template <typename T>
std::vector<trace::TapDifference> compare_tower(const std::string& trace_name, int64_t width,
                                                int64_t height) {
  const trace::TraceFile reference(golden_path("v41-tower-full/" + trace_name + ".safetensors"));
  const deepseek_v41::Config config = released_config();
  OpContext context(available_threads());
  const deepseek_v41::SyntheticWeights weights(context.ctx, deepseek_v41::tower_only(config));
  const deepseek_v41::Network network = deepseek_v41::synthetic_network(config, weights);
  // The canvas as it is: 700 x 420 lies below the model's smallest area.
  deepseek_v41::PreparedImage image =
      deepseek_v41::prepare_image(test_canvas(width, height), {.min_pixels = 1});
  const deepseek_v41::Grid grid = image.plan.canvas.patches;
  EXPECT_EQ(image.plan.canvas.size, (image::Size{width, height}));

  trace::Comparer comparer(reference);
  context.ctx.trace.start(&comparer, "");
  context.ctx.trace.tap(image.patches.mutable_view(), "image0.patches");
  deepseek_v41::VisionBuffers<T> buffers(config, grid.count());
  deepseek_v41::VisionJob<T> job(network, image.patches.as<bf16>(), grid.rows, grid.columns,
                                 "image0", buffers);
  EXPECT_TRUE(job.advance(context.ctx, job.tiles_total()));
  context.ctx.trace.stop();
  EXPECT_TRUE(comparer.missing().empty());
  EXPECT_EQ(comparer.differences().size(), 7u);
  for (const trace::TapDifference& tap : comparer.differences()) {
    EXPECT_TRUE(tap.same_shape()) << tap.name;
    std::printf("%-24s rel %.2e  max %.2e (peak %.2f)  changed %.3f %%  sums %.1e %.1e\n",
                tap.name.c_str(), tap.metrics.relative_l2, tap.metrics.max_abs,
                tap.metrics.reference_peak, 100 * tap.metrics.changed_share(),
                tap.group_sum_error.value_or(0), tap.group_abs_sum_error.value_or(0));
  }
  return comparer.differences();
}

// bf16 activations, against a run of the reference with exact softmax: any other order of summation
// ends up about 1.6 % away, one that is wrong somewhere tens of percent.
inline void expect_like_reference(const std::vector<trace::TapDifference>& taps) {
  for (const trace::TapDifference& tap : taps) {
    const trace::Metrics& m = tap.metrics;
    if (tap.name == "image0.patches") {
      EXPECT_EQ(m.changed, 0);
      EXPECT_EQ(tap.group_sum_error, 0.0);
    } else if (tap.name == "image0.vision.patch_embed") {
      EXPECT_LE(m.max_bf16_steps, 1);
      EXPECT_LE(m.changed_share(), 1e-3);
    } else {
      const double step = trace::bf16_step_at(m.reference_peak);
      EXPECT_TRUE(trace::is_within(m, {.relative_l2 = 0.03, .max_abs = 8 * step})) << tap.name;
    }
    EXPECT_LE(tap.group_sum_error.value(), 1e-3) << tap.name;
    EXPECT_LE(tap.group_abs_sum_error.value(), 1e-3) << tap.name;
  }
}

// No rounding points: an independent fp32 run stays within 8e-7.
inline void expect_like_fp32(const std::vector<trace::TapDifference>& taps) {
  for (const trace::TapDifference& tap : taps) {
    EXPECT_TRUE(trace::is_within(tap.metrics, {.relative_l2 = 1e-5})) << tap.name;
    EXPECT_LE(tap.group_sum_error.value(), 1e-5) << tap.name;
    EXPECT_LE(tap.group_abs_sum_error.value(), 1e-5) << tap.name;
  }
}

// Plain C++ needs an hour for what the vector levels do in seconds; that all levels give the same
// bits is tested on a small tower.
#define TESSERA_SKIP_FULL_SIZE_WITHOUT_VECTORS()                                    \
  if (active_isa() == IsaLevel::reference) {                                        \
    GTEST_SKIP() << "full size at kernel level `reference` takes an hour; not run"; \
  }

}  // namespace tessera::test
