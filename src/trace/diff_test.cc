#include "trace/diff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "trace/diff_rows.h"
#include "trace/sinks.h"
#include "trace/test_files.h"

namespace tessera::trace {
namespace {

const std::string kStages = TESSERA_SOURCE_DIR "/share/stages/deepseek_v41.json";

// Pages of mapped files in this process's memory.
int64_t resident_file_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kilobytes = 0;
  while (status >> word) {
    if (word == "RssFile:") {
      status >> kilobytes;
    }
  }
  return kilobytes * 1024;
}

// Tensors of a small trace, changed by a test and written to a file.
struct Content {
  std::map<std::string, std::pair<Shape, std::vector<float>>> floats;
  std::map<std::string, std::pair<Shape, std::vector<int64_t>>> integers;
  TraceInfo info;
  bool is_forced = false;

  std::string write(const TemporaryFolder& folder, const std::string& name) const {
    Writer writer(folder / name);
    for (const auto& [tap, tensor] : integers) {
      writer.add(tap, tensor_of(tensor.first, tensor.second).view());
    }
    for (const auto& [tap, tensor] : floats) {
      writer.add(tap, tensor_of(tensor.first, tensor.second).view());
    }
    writer.set_info(info);
    if (is_forced) {
      writer.set_metadata("forced", "reference");
    }
    writer.commit();
    return folder / name;
  }
};

std::vector<float> random_values(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& x : values) {
    x = normal(random);
  }
  return values;
}

// Two layers of a model with a picture of 2 x 2 cells in the prompt "a <picture> b".
Content sample() {
  Content c;
  c.info.model = "m";
  c.info.calls = {{0, 10}, {10, 1}};
  c.info.tokens = {2, 0};
  c.integers["ids"] = {{10}, {5, 9, 9, 9, 9, 9, 9, 9, 9, 6}};
  c.integers["types"] = {{10}, {-1, 0, 1, 1, 2, 1, 1, 2, 3, -1}};
  c.integers["image0.grid"] = {{4}, {6, 6, 2, 2}};
  unsigned seed = 1;
  const auto add = [&](const std::string& name, int64_t rows, int64_t width) {
    c.floats[name] = {{rows, width}, random_values(rows * width, seed++)};
  };
  add("image0.vision.patch_embed", 36, 8);
  add("image0.aligner", 4, 8);
  for (const std::string call : {"c0.", "c1."}) {
    const int64_t rows = call == "c0." ? 10 : 1;
    add(call + "embed", rows, 8);
    for (const std::string layer : {"layers.0", "layers.1"}) {
      add(call + layer + ".attn.norm", rows, 8);
      add(call + layer + ".attn", rows, 8);
      add(call + layer + ".ffn.norm", rows, 8);
      add(call + layer + ".ffn.gate.scores", rows, 6);
      c.integers[call + layer + ".ffn.gate.topk"] = {{rows, 2}, {}};
      for (int64_t row = 0; row < rows; ++row) {
        std::vector<float>& scores = c.floats[call + layer + ".ffn.gate.scores"].second;
        scores[static_cast<size_t>(6 * row + 1)] = 5;
        scores[static_cast<size_t>(6 * row + 4)] = 6;
        std::vector<int64_t>& picks = c.integers[call + layer + ".ffn.gate.topk"].second;
        picks.insert(picks.end(), {1, 4});
      }
      add(call + layer + ".ffn", rows, 8);
      add(call + layer, rows, 8);
    }
    add(call + "norm", rows, 8);
    c.floats[call + "logits"] = {{1, 4}, {0, 1, 3, 2}};
  }
  c.floats["c1.logits"] = {{1, 4}, {3, 1, 0, 2}};
  return c;
}

DiffReport diff_of(const Content& reference, const Content& ours, const Tolerances& tolerances = {},
                   const DiffOptions& options = {}) {
  const TemporaryFolder folder;
  const TraceFile a(reference.write(folder, "reference.safetensors"));
  const TraceFile b(ours.write(folder, "ours.safetensors"));
  static const StageMap stages = StageMap::load(kStages);
  return diff(a, b, stages, tolerances, options);
}

const TapDiff& tap_of(const DiffReport& report, std::string_view name) {
  for (const TapDiff& tap : report.taps) {
    if (tap.name == name) {
      return tap;
    }
  }
  throw Error(ErrorCode::bad_request, str_cat("no tap ", name));
}

TEST(Diff, EqualTraces) {
  const DiffReport report = diff_of(sample(), sample());
  EXPECT_EQ(report.verdict, DiffVerdict::equal);
  EXPECT_EQ(report.first, nullptr);
  EXPECT_TRUE(report.warnings.empty());
  for (const TapDiff& tap : report.taps) {
    EXPECT_EQ(tap.status, TapStatus::equal) << tap.name;
    EXPECT_EQ(tap.metrics.changed, 0);
  }
  EXPECT_TRUE(report.line.starts_with("no divergence"));
}

// A wrong value is named with its row, its token and what went in; its victims come later.
TEST(Diff, NamesTheFirstTapThatDeparts) {
  Content ours = sample();
  ours.floats["c0.layers.1.attn"].second[8 * 5 + 3] += 2;  // row 5: cell (1,0) of the picture
  ours.floats["c0.layers.1"].second[8 * 2] += 5;
  ours.floats["c0.norm"].second[0] += 5;
  const DiffReport report = diff_of(sample(), ours);
  EXPECT_EQ(report.verdict, DiffVerdict::diverged);
  ASSERT_NE(report.first, nullptr);
  EXPECT_EQ(report.first->name, "c0.layers.1.attn");
  EXPECT_EQ(report.first->first.value().row, 5);
  EXPECT_EQ(report.first->first.value().column, 3);
  EXPECT_EQ(report.first->row_label, "image 0, cell (1,0)");
  EXPECT_FLOAT_EQ(static_cast<float>(report.first->first.value().ours),
                  ours.floats["c0.layers.1.attn"].second[8 * 5 + 3]);
  EXPECT_EQ(report.line.substr(0, 65),
            "first divergence: c0.layers.1.attn row 5 (image 0, cell (1,0)): r");
  EXPECT_TRUE(report.line.ends_with("its inputs are not in the traces")) << report.line;
  EXPECT_EQ(tap_of(report, "c0.layers.1").status, TapStatus::over);
}

TEST(Diff, SaysWhetherTheInputsAreEqual) {
  Content ours = sample();
  ours.floats["c0.layers.0.ffn.gate.scores"].second[0] += 1;
  EXPECT_EQ(diff_of(sample(), ours).cause, "inputs equal");
  for (float& x : ours.floats["c0.layers.0.ffn.norm"].second) {
    x *= 1.001f;  // less than a step of bf16
  }
  const DiffReport report = diff_of(sample(), ours);
  EXPECT_EQ(report.first->name, "c0.layers.0.ffn.gate.scores");
  EXPECT_EQ(report.cause, "inputs within tolerance (at most 13 % of it)");
  ours.is_forced = true;
  EXPECT_EQ(diff_of(sample(), ours).cause, "inputs are the reference's");
}

TEST(Diff, LabelsRows) {
  const auto label_of = [](const std::string& tap, size_t element) {
    Content ours = sample();
    ours.floats[tap].second[element] += 9;
    DiffOptions options;
    options.token_text = [](int64_t id) { return str_cat("<", id, ">"); };
    return diff_of(sample(), ours, {}, options).first->row_label;
  };
  EXPECT_EQ(label_of("c0.embed", 0), "'<5>'");
  EXPECT_EQ(label_of("c0.embed", 8 * 1), "image 0, start");
  EXPECT_EQ(label_of("c0.embed", 8 * 3), "image 0, cell (0,1)");
  EXPECT_EQ(label_of("c0.embed", 8 * 4), "image 0, line end");
  EXPECT_EQ(label_of("c0.embed", 8 * 8), "image 0, end");
  EXPECT_EQ(label_of("c1.embed", 0), "'<2>'");  // the token behind call 0
  EXPECT_EQ(label_of("c0.logits", 0), "'<6>'");
  EXPECT_EQ(label_of("image0.vision.patch_embed", 8 * 7), "image 0, patch (1,1)");
  EXPECT_EQ(label_of("image0.aligner", 8 * 3), "image 0, cell (1,1)");
}

TEST(Diff, NotANumberIsBroken) {
  Content ours = sample();
  ours.floats["c0.norm"].second[8 * 4 + 1] = std::numeric_limits<float>::quiet_NaN();
  const DiffReport report = diff_of(sample(), ours);
  EXPECT_EQ(report.first->name, "c0.norm");
  EXPECT_EQ(report.first->status, TapStatus::broken);
  EXPECT_EQ(report.first->first.value().row, 4);
  Content both = sample();
  both.floats["c0.norm"].second[8 * 4 + 1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(diff_of(both, ours).verdict, DiffVerdict::equal);
}

TEST(Diff, ShapesAndMissingTaps) {
  Content ours = sample();
  ours.floats["c0.norm"] = {{5, 16}, ours.floats["c0.norm"].second};
  ours.floats.erase("c0.layers.0.attn");
  ours.floats["c0.layers.0.attn.o"] = {{1, 1}, {1}};
  ours.floats["own.name"] = {{1, 1}, {1}};
  Content reference = sample();
  reference.floats["own.name"] = {{1, 1}, {1}};
  const DiffReport report = diff_of(reference, ours);
  EXPECT_EQ(report.first->name, "c0.norm");
  EXPECT_EQ(report.line.substr(0, 70),
            "first divergence: c0.norm has shape [5,16], the reference [10,8]; inpu");
  EXPECT_EQ(tap_of(report, "c0.layers.0.attn").status, TapStatus::missing);
  EXPECT_EQ(tap_of(report, "c0.layers.0.attn.o").status, TapStatus::extra);
  EXPECT_EQ(tap_of(report, "own.name").status, TapStatus::not_compared);
}

// Scores that move past each other by noise are a tie; what follows is excused.
TEST(Diff, ASwapInsideTheNoiseIsATie) {
  Content reference = sample(), ours = sample();
  std::vector<float>& there = reference.floats["c0.layers.0.ffn.gate.scores"].second;
  std::vector<float>& here = ours.floats["c0.layers.0.ffn.gate.scores"].second;
  there[6 * 7 + 2] = 4.9999995f;  // just behind expert 1 with 5
  here[6 * 7 + 2] = 5.0000005f;
  ours.integers["c0.layers.0.ffn.gate.topk"].second[2 * 7] = 2;
  for (float& x : ours.floats["c0.layers.0.ffn"].second) {
    x += 1;
  }
  for (float& x : ours.floats["c0.layers.0"].second) {
    x += 1;
  }
  DiffReport report = diff_of(reference, ours);
  EXPECT_EQ(report.verdict, DiffVerdict::tie);
  EXPECT_EQ(report.first->name, "c0.layers.0.ffn.gate.topk");
  EXPECT_EQ(report.first->first.value().row, 7);
  EXPECT_NE(report.line.find("picks 2 instead of 1"), std::string::npos) << report.line;
  EXPECT_NE(report.line.find("from c0.layers.0.ffn on"), std::string::npos) << report.line;
  // A forced run feeds the reference's picks: nothing is excused there.
  ours.is_forced = true;
  report = diff_of(reference, ours);
  EXPECT_EQ(report.verdict, DiffVerdict::diverged);
  EXPECT_EQ(report.first->name, "c0.layers.0.ffn");
}

TEST(Diff, ASwapOutsideTheNoiseIsADivergence) {
  Content ours = sample();
  ours.integers["c0.layers.0.ffn.gate.topk"].second[2 * 7] = 2;  // with unchanged scores
  const DiffReport report = diff_of(sample(), ours);
  EXPECT_EQ(report.verdict, DiffVerdict::diverged);
  EXPECT_EQ(report.first->name, "c0.layers.0.ffn.gate.topk");
  Content fewer = sample();
  fewer.integers["c0.layers.0.ffn.gate.topk"].second[2 * 7] = -1;
  EXPECT_EQ(diff_of(sample(), fewer).verdict, DiffVerdict::diverged);
  Content reordered = sample();
  std::swap(reordered.integers["c0.layers.0.ffn.gate.topk"].second[0],
            reordered.integers["c0.layers.0.ffn.gate.topk"].second[1]);
  EXPECT_EQ(diff_of(sample(), reordered).verdict, DiffVerdict::equal);
}

TEST(Diff, TokensAreJudgedByTheirLogits) {
  Content ours = sample();
  ours.info.tokens[0] = 3;
  DiffReport report = diff_of(sample(), ours);
  EXPECT_EQ(report.verdict, DiffVerdict::diverged);
  EXPECT_EQ(report.first->name, "c0.token");
  Content reference = sample();
  reference.floats["c0.logits"].second = {0, 1, 3, 2.9999998f};
  ours.floats["c0.logits"].second = {0, 1, 3, 3.0000002f};
  report = diff_of(reference, ours);
  EXPECT_EQ(report.verdict, DiffVerdict::tie);
  EXPECT_EQ(report.first->name, "c0.token");
}

TEST(Diff, MetadataThatDifferAreSaidFirst) {
  Content ours = sample();
  ours.info.model = "n";
  ours.info.calls = {{0, 10}};
  ours.integers["ids"].second[0] = 7;
  const DiffReport report = diff_of(sample(), ours);
  ASSERT_EQ(report.warnings.size(), 2U);
  EXPECT_NE(report.warnings[0].find("model"), std::string::npos);
  EXPECT_EQ(report.first->name, "ids");
  EXPECT_EQ(report.first->row_label, "token 5");
  const std::string text = to_text(report, false);
  EXPECT_TRUE(text.starts_with("note: other model")) << text;
}

TEST(Diff, TracesWithoutACommonTapAreRefused) {
  Content other;
  other.floats["x"] = {{1}, {1}};
  EXPECT_NE(error_of([&] { diff_of(sample(), other); }).find("no tap in common"),
            std::string::npos);
}

TEST(Diff, JsonHasTheContractsMembers) {
  Content ours = sample();
  ours.floats["c0.norm"].second[0] += 5;
  const io::Json json = to_json(diff_of(sample(), ours));
  EXPECT_EQ(json.find("verdict")->text(), "diverged");
  const io::Json& first = *json.find("first");
  EXPECT_EQ(first.find("name")->text(), "c0.norm");
  EXPECT_EQ(first.find("kind")->text(), "values");
  EXPECT_EQ(first.find("row")->as_int64(), 0);
  EXPECT_TRUE(first.find("reference")->is_number());
  EXPECT_TRUE(first.find("ours")->is_number());
  EXPECT_EQ(first.find("cause")->text(), "inputs equal");
  EXPECT_FALSE(first.find("hints")->items().empty());
  EXPECT_GT(json.find("tensors")->items().size(), 20U);
  EXPECT_TRUE(to_json(diff_of(sample(), sample())).find("first")->is_null());
}

TEST(Diff, LearnedTolerancesHoldForTheRunsTheyCameFrom) {
  Content other = sample();
  for (auto& [name, tensor] : other.floats) {
    for (size_t i = 0; i < tensor.second.size(); ++i) {
      tensor.second[i] *= i % 2 == 0 ? 1.01f : 0.99f;
    }
  }
  const TemporaryFolder folder;
  const TraceFile a(sample().write(folder, "a.safetensors"));
  const TraceFile b(other.write(folder, "b.safetensors"));
  const StageMap stages = StageMap::load(kStages);
  EXPECT_EQ(diff(a, b, stages, {}).verdict, DiffVerdict::diverged);
  const io::Json learned = learn_tolerances(a, b, stages, 2);
  const Tolerances tolerances(learned, "learned");
  EXPECT_EQ(diff(a, b, stages, tolerances).verdict, DiffVerdict::equal);
  const Tolerance of_norm = tolerances.of("c0.norm", 7);
  EXPECT_NEAR(of_norm.rms, 0.02, 0.001);
}

TEST(Tolerances, FirstRuleThatMatchesAndTheGrid) {
  const Tolerances t(io::parse_json(R"({"format": "tolerance/1", "rules": [
    {"taps": "c0.a", "rms": 0.5, "row": 1}, {"taps": "c*.a,b", "rms": 0.25, "row": 2}]})",
                                    "t"),
                     "t");
  EXPECT_EQ(t.of("c0.a", 7).rms, 0.5);
  EXPECT_EQ(t.of("c1.a", 7).rms, 0.25);
  EXPECT_EQ(t.of("b", 7).row, 2);
  EXPECT_EQ(t.of("z", 7).rms, std::ldexp(1.0, -7));
  for (const char* text :
       {"{}", R"({"format": "tolerance/1"})",
        R"({"format": "tolerance/1", "rules": [{"taps": "a", "rms": 1}]})",
        R"({"format": "tolerance/1", "rules": [{"rms": 1, "row": 1}]})",
        R"({"format": "tolerance/1", "rules": [{"taps": "a", "rms": -1, "row": 1}]})"}) {
    EXPECT_NE(error_of([&] { Tolerances(io::parse_json(text, "t"), "t"); }), "") << text;
  }
}

TEST(CompareRows, MetricsAgainstTheirFormulas) {
  const std::vector<float> r = {1, 2, 3, 4, 0, 0}, o = {1, 2.5f, 3, 3, 0, 1};
  const Tensor a = tensor_of({3, 2}, r), b = tensor_of({3, 2}, o);
  const RowComparison c =
      compare_rows({a.view(), {}}, {b.view(), {}}, 7, {.rms = 0.1, .row = 0.2}, false);
  const DiffMetrics& m = c.metrics;
  EXPECT_EQ(m.elements, 6);
  EXPECT_EQ(m.changed, 3);
  EXPECT_DOUBLE_EQ(m.max_abs, 1);
  EXPECT_DOUBLE_EQ(m.reference_rms, std::sqrt(30 / 6.0));
  EXPECT_DOUBLE_EQ(m.rms, std::sqrt((0.25 + 1 + 1) / 30));
  EXPECT_DOUBLE_EQ(m.cosine, (1 + 5 + 9 + 12) / std::sqrt(30 * (1 + 6.25 + 9 + 9 + 1)));
  EXPECT_EQ(m.worst_row, 2);
  EXPECT_DOUBLE_EQ(m.worst_row_rms, std::sqrt(1 / (0.01 * 5 * 2)));
  EXPECT_DOUBLE_EQ(m.max_rel, 1 / std::sqrt(5.0));
  EXPECT_DOUBLE_EQ(m.ulp, 128);  // 0 and 1 on the grid of bf16 at 1
  EXPECT_EQ(m.outside, 3);       // 0.5, 1 and 1 against 0.2 times 2.2, 4 and 2.2
  EXPECT_TRUE(c.is_over);
  EXPECT_EQ(c.first.value().row, 0);
  EXPECT_EQ(c.first.value().column, 1);
}

// Fast and slow ways through the blocks agree: types, lengths around a block, equal stretches.
TEST(CompareRows, AnyTypeAndLength) {
  for (const int64_t width : {1, 3, 4095, 4096, 4097, 9000}) {
    const std::vector<float> r = random_values(2 * width, 3);
    std::vector<float> o = r;
    o[static_cast<size_t>(width)] += 1;
    const Tensor a = tensor_of({2, width}, r), b = tensor_of({2, width}, o);
    const RowComparison c = compare_rows({a.view(), {}}, {b.view(), {}}, 23, {1e-6, 1e-6}, false);
    EXPECT_EQ(c.metrics.changed, 1) << width;
    EXPECT_EQ(c.first.value().row, 1);
    EXPECT_EQ(c.first.value().column, 0);
    double squares = 0;
    for (const float x : r) {
      squares += static_cast<double>(x) * static_cast<double>(x);
    }
    EXPECT_NEAR(c.metrics.reference_rms, std::sqrt(squares / static_cast<double>(2 * width)),
                1e-12);
  }
  const Tensor big = tensor_of<int64_t>({2}, {int64_t{1} << 60, 1});
  const Tensor other = tensor_of<int64_t>({2}, {(int64_t{1} << 60) + 1, 1});
  EXPECT_EQ(compare_rows({big.view(), {}}, {other.view(), {}}, 23, {}, true).metrics.changed, 1);
}

// The goldens against themselves, and against the same with other index keys.
TEST(Diff, GoldenTraces) {
  const StageMap stages = StageMap::load(kStages);
  const TraceFile reference(golden("v41-tiny/cases/image_one.safetensors"));
  const DiffReport same = diff(reference, reference, stages, {});
  EXPECT_EQ(same.verdict, DiffVerdict::equal);
  for (const TapDiff& tap : same.taps) {
    EXPECT_EQ(tap.status, TapStatus::equal) << tap.name;
  }
  const TraceFile own(golden("v41-tiny/cases/image_one.safetensors") + "," +
                      golden("v41-tiny/cases/image_one.own_index.safetensors"));
  const DiffReport report = diff(reference, own, stages, {});
  EXPECT_EQ(report.verdict, DiffVerdict::diverged);
  EXPECT_NE(report.first->name.find(".attn.indexer."), std::string::npos) << report.line;
  EXPECT_FALSE(report.warnings.empty());
}

// Files larger than memory are compared tap by tap.
TEST(Diff, MemoryIsThatOfTheLargestTap) {
  constexpr int64_t kTaps = 24, kRows = 1024, kWidth = 1024;  // 4 MiB per tap and file
  const TemporaryFolder folder;
  for (const char* name : {"a.safetensors", "b.safetensors"}) {
    Writer writer(folder / name);
    for (int64_t i = 0; i < kTaps; ++i) {
      Tensor values(DType::f32, {kRows, kWidth});
      std::fill_n(values.as<float>(), kRows * kWidth, name[0] == 'a' ? 1.0f : 1.0000001f);
      writer.add(str_cat("c0.layers.", i, ".attn"), values.view());
    }
    writer.commit();
  }
  const TraceFile a(folder / "a.safetensors"), b(folder / "b.safetensors");
  int64_t most = 0;
  DiffOptions options;
  options.on_progress = [&](int64_t, int64_t) { most = std::max(most, resident_file_bytes()); };
  const int64_t before = resident_file_bytes();
  const DiffReport report = diff(a, b, StageMap::load(kStages), {}, options);
  EXPECT_EQ(report.verdict, DiffVerdict::equal);
  EXPECT_LT(most - before, int64_t{4} << 20);  // all of it: 192 MiB
}

}  // namespace
}  // namespace tessera::trace
