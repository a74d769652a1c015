// The golden traces of the repository, read by the project's own reader.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <tuple>

#include "trace/convert.h"
#include "trace/report.h"
#include "trace/test_files.h"

namespace tessera::trace {
namespace {

struct TinyCase {
  const char* name;
  int64_t prefill;     // rows of the first call
  size_t calls;        // with the prefill
  size_t tensors;      // in the trace
  size_t own_tensors;  // in the overlay, 0: there is none
};

void PrintTo(const TinyCase& tiny_case, std::ostream* out) { *out << tiny_case.name; }

// README.md of the folder gives prompts and calls; numbers of tensors are those of the files.
constexpr TinyCase kTinyCases[] = {
    {"text_1", 1, 5, 921, 4},        {"text_5", 6, 6, 1094, 6},
    {"text_mid", 30, 5, 940, 474},   {"text_long", 258, 9, 290, 239},
    {"image_one", 36, 5, 958, 476},  {"images_two", 169, 5, 168, 59},
    {"image_first", 50, 5, 165, 71}, {"image_medium", 16, 3, 101, 0},
    {"text_steps", 3, 28, 898, 207},
};

class TinyGolden : public testing::TestWithParam<TinyCase> {
 protected:
  std::string path() const {
    return golden(str_cat("v41-tiny/cases/", GetParam().name, ".safetensors"));
  }
  std::string overlay() const {
    return golden(str_cat("v41-tiny/cases/", GetParam().name, ".own_index.safetensors"));
  }
};

TEST_P(TinyGolden, Metadata) {
  const TinyCase& expected = GetParam();
  const TraceFile trace(path());
  const TraceInfo& info = trace.info();
  EXPECT_EQ(*trace.metadata_value("format"), "trace/1");
  EXPECT_NE(info.producer.find("DeepSeek-V4.1-Flash"), std::string::npos);
  EXPECT_EQ(info.model.size(), 64u);
  EXPECT_EQ(info.request.find("name")->text(), expected.name);
  EXPECT_EQ(info.activations, "bf16");
  EXPECT_EQ(info.index_keys, "reference");
  EXPECT_EQ(info.overlay_of, "");
  ASSERT_EQ(info.calls.size(), expected.calls);
  EXPECT_EQ(info.tokens.size(), expected.calls);
  EXPECT_EQ(info.calls[0], (TraceCall{0, expected.prefill}));
  for (size_t i = 1; i < info.calls.size(); ++i) {
    EXPECT_EQ(info.calls[i].start, info.calls[i - 1].start + info.calls[i - 1].rows);
    EXPECT_EQ(info.calls[i].rows, 1);
  }
}

TEST_P(TinyGolden, Tensors) {
  const TinyCase& expected = GetParam();
  const TraceFile trace(path());
  EXPECT_EQ(trace.names().size(), expected.tensors);
  EXPECT_EQ(trace.taps(), trace.names());
  for (size_t call = 0; call < expected.calls; ++call) {
    const int64_t rows = trace.info().calls[call].rows;
    const std::string prefix = str_cat("c", call, ".");
    EXPECT_EQ(trace.require(prefix + "embed").shape, (Shape{rows, 96}));
    EXPECT_EQ(trace.require(prefix + "engram.ids").shape, (Shape{rows, 2, 6}));
    for (int layer = 0; layer < 8; ++layer) {
      const std::string name = str_cat(prefix, "layers.", layer);
      EXPECT_EQ(trace.require(name).shape, (Shape{rows, 4, 96}));
      EXPECT_EQ(trace.require(name + ".ffn.gate.topk").shape, (Shape{rows, 3}));
    }
    EXPECT_EQ(trace.require(prefix + "logits").shape, (Shape{1, 384}));
    // The token after the call is the largest logit.
    const std::vector<float> logits = trace.floats(prefix + "logits");
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    const bool is_greedy = std::string_view(expected.name) != "text_steps";
    EXPECT_TRUE(!is_greedy || best == trace.info().tokens[call]) << prefix;
  }
  EXPECT_EQ(trace.find(str_cat("c", expected.calls, ".embed")), std::nullopt);
  // `ids` are those of the request.
  const io::Json* ids = trace.info().request.find("ids");
  const std::vector<int64_t> stored = trace.integers("ids");
  ASSERT_EQ(stored.size(), ids->items().size());
  for (size_t i = 0; i < stored.size(); ++i) {
    EXPECT_EQ(stored[i], ids->items()[i].as_int64());
  }
}

TEST_P(TinyGolden, EveryValueIsReadable) {
  const TraceFile trace(path());
  for (const std::string_view name : trace.names()) {
    // Scores alone may be -infinity: what is masked.
    const bool is_score = name.ends_with(".indexer.scores");
    for (const double value : trace.doubles(name)) {
      ASSERT_TRUE(std::isfinite(value) || (is_score && value == -HUGE_VAL)) << name;
    }
    const TapKind kind = tap_kind(name);
    EXPECT_EQ(is_integer(trace.find(name)->dtype), kind != TapKind::value) << name;
  }
}

TEST_P(TinyGolden, OwnIndexOverlay) {
  const TinyCase& expected = GetParam();
  if (expected.own_tensors == 0) {
    EXPECT_FALSE(std::filesystem::exists(overlay()));
    return;
  }
  const TraceFile base(path());
  const TraceFile over(overlay());
  const TraceFile both(path() + "," + overlay());
  EXPECT_EQ(over.names().size(), expected.own_tensors);
  EXPECT_EQ(over.info().overlay_of, str_cat(expected.name, ".safetensors"));
  EXPECT_EQ(both.names(), base.names());
  EXPECT_EQ(both.info().index_keys, "own");
  EXPECT_EQ(both.info().tokens, over.info().tokens);
  for (const std::string_view name : both.names()) {
    const Metrics to_base = compare(*base.find(name), *both.find(name));
    const std::optional<TensorView> overlaid = over.find(name);
    EXPECT_EQ(to_base.changed > 0, overlaid.has_value()) << name;
    if (overlaid) {
      EXPECT_EQ(compare(*overlaid, *both.find(name)).changed, 0) << name;
      EXPECT_FALSE(name.starts_with("c0.")) << name;
    }
  }
}

TEST_P(TinyGolden, RewrittenTraceIsEqual) {
  const TemporaryFolder folder;
  const std::string copy_path = folder / "copy.safetensors";
  const TraceFile trace(path());
  {
    Writer writer(copy_path);
    for (const std::string_view name : trace.names()) {
      writer.add(name, *trace.find(name));
    }
    writer.set_info(trace.info());
    writer.commit();
  }
  const TraceFile copy(copy_path);
  EXPECT_EQ(copy.names(), trace.names());
  EXPECT_EQ(copy.info().calls, trace.info().calls);
  EXPECT_EQ(copy.info().tokens, trace.info().tokens);
  EXPECT_EQ(io::dump_compact(copy.info().request), io::dump_compact(trace.info().request));
  Comparer comparer(trace, {.collect_extra = true});
  for (const std::string_view name : copy.names()) {
    std::vector<float> values = copy.floats(name);
    comparer.tap(name, mutable_view_of(values.data(), copy.find(name)->shape));
  }
  EXPECT_TRUE(all_within(comparer, Limits())) << report(comparer, Limits());
  EXPECT_EQ(comparer.differences().size(), trace.names().size());
}

INSTANTIATE_TEST_SUITE_P(All, TinyGolden, testing::ValuesIn(kTinyCases),
                         [](const auto& param) { return std::string(param.param.name); });

constexpr std::string_view kTowerTaps[] = {"image0.patches",          "image0.vision.patch_embed",
                                           "image0.vision.blocks.0",  "image0.vision.blocks.15",
                                           "image0.vision.blocks.31", "image0.vision.norm",
                                           "image0.aligner"};

TEST(TowerGolden, ExcerptsOfEveryFile) {
  for (const auto& [name, patches, merged, rows] :
       std::vector<std::tuple<std::string_view, int64_t, int64_t, size_t>>{
           {"1008x1008.math", 5184, 576, 24},
           {"1008x1008.flash", 5184, 576, 24},
           {"700x420.math", 1500, 170, 24},
           {"700x420.flash", 1500, 170, 24},
           {"700x420.fp32", 1500, 170, 12}}) {
    const TraceFile trace(golden(str_cat("v41-tower-full/", name, ".safetensors")));
    EXPECT_EQ(trace.names().size(), 21u);
    EXPECT_EQ(trace.taps().size(), std::size(kTowerTaps));
    EXPECT_TRUE(trace.info().calls.empty());
    for (const std::string_view tap : kTowerTaps) {
      const Excerpt* excerpt = trace.find_excerpt(tap);
      ASSERT_NE(excerpt, nullptr) << tap;
      EXPECT_EQ(excerpt->shape[0], tap == "image0.aligner" ? merged : patches);
      EXPECT_EQ(excerpt->rows.size(), rows);
      EXPECT_EQ(excerpt->group_rows, 64);
      EXPECT_FALSE(trace.find(tap));
    }
  }
}

// The patches of the 700 x 420 canvas, from the formula of the folder's README.
std::vector<float> tower_patches() {
  constexpr int64_t kGridH = 30;
  constexpr int64_t kGridW = 50;
  constexpr int64_t kPatch = 14;
  std::vector<float> out;
  for (int64_t patch = 0; patch < kGridH * kGridW; ++patch) {
    for (int64_t channel = 0; channel < 3; ++channel) {
      for (int64_t pixel = 0; pixel < kPatch * kPatch; ++pixel) {
        const int64_t x = patch % kGridW * kPatch + pixel % kPatch;
        const int64_t y = patch / kGridW * kPatch + pixel / kPatch;
        const int64_t rgb[3] = {7 * x + 3 * y, x * x + 5 * y, x * y + 11};
        const float value = static_cast<float>(rgb[channel] % 256);
        out.push_back(round_bf16((value / 255.0f - 0.5f) / 0.5f));
      }
    }
  }
  return out;
}

TEST(TowerGolden, ComparerTakesAnExcerptForTheTap) {
  const TraceFile trace(golden("v41-tower-full/700x420.math.safetensors"));
  std::vector<float> patches = tower_patches();
  const auto compare_patches = [&] {
    Comparer comparer(trace, {.globs = "image0.patches"});
    EXPECT_TRUE(comparer.wants("image0.patches"));
    EXPECT_FALSE(comparer.wants("image0.patches.rows"));
    comparer.tap("image0.patches", mutable_view_of(patches.data(), Shape{1500, 588}));
    EXPECT_TRUE(comparer.missing().empty());
    return comparer.differences().at(0);
  };
  const TapDifference equal = compare_patches();
  EXPECT_EQ(equal.metrics.elements, 24 * 588);
  EXPECT_EQ(equal.metrics.changed, 0);
  // The sums are of numbers k/255 rounded to bf16: multiples of 2^-15 that add exactly.
  EXPECT_EQ(*equal.group_sum_error, 0);
  EXPECT_EQ(*equal.group_abs_sum_error, 0);

  patches[100 * 588] += 1;  // no kept row
  const TapDifference between = compare_patches();
  EXPECT_EQ(between.metrics.changed, 0);
  EXPECT_GT(*between.group_sum_error, 0);
  patches[1499 * 588 + 3] += 1;  // the last row
  const TapDifference last = compare_patches();
  EXPECT_EQ(last.metrics.changed, 1);
  EXPECT_EQ(last.first_row(), 1499);

  Forcer forcer(trace, "*");
  EXPECT_FALSE(forcer.wants("image0.patches"));
}

}  // namespace
}  // namespace tessera::trace
