// Test helper: a small comparison with everything the page shows: a picture, cells over it, tokens,
// picks, an excerpt's absence, and names that attack it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/json.h"
#include "trace/diff.h"
#include "trace/sinks.h"
#include "trace/test_files.h"

namespace tessera::trace {

inline const std::string kHostileName =
    "</script><img src=x onerror=\"document.title='pwned'\">'&amp;<!--\xE2\x80\xAE"
    "cod.exe";

inline StageMap sample_stages() {
  return StageMap(
      io::parse_json(R"({"format": "stages/1", "name": "sample <b>model</b>", "stages": [
        {"tap": "ids", "kind": "integers", "rows": "tokens"},
        {"each": "i", "stages": [
          {"tap": "image{i}.pixels", "kind": "image", "rows": "lines"},
          {"tap": "image{i}.grid", "kind": "integers"},
          {"tap": "image{i}.patches", "kind": "values", "grid": "bf16", "rows": "patches",
           "parents": ["image{i}.pixels"]},
          {"tap": "image{i}.aligner", "kind": "values", "grid": "bf16", "rows": "cells",
           "parents": ["image{i}.patches"],
           "hints": ["padding by <whole> lines", "order & activation"]}]},
        {"each": "k", "stages": [
          {"tap": "c{k}.embed", "kind": "values", "rows": "tokens",
           "parents": ["ids", "image{*}.aligner"]},
          {"each": "l", "stages": [
            {"tap": "c{k}.layers.{l}.topk", "kind": "picks", "rows": "tokens",
             "parents": ["c{k}.layers.{l-1}|c{k}.embed"]},
            {"tap": "c{k}.layers.{l}", "kind": "values", "rows": "tokens",
             "parents": ["c{k}.layers.{l}.topk", "c{k}.layers.{l-1}|c{k}.embed"]}]}]}]})",
                     "sample"),
      "sample");
}

// Two traces of one request and a report about them that is written by hand.
class SamplePage {
 public:
  static constexpr int64_t kTokens = 40, kWidth = 16;

  SamplePage() {
    write("reference.safetensors", false);
    write("ours.safetensors", true);
    reference = std::make_unique<TraceFile>(folder / "reference.safetensors");
    ours = std::make_unique<TraceFile>(folder / "ours.safetensors");
    report.reference = reference->name();
    report.ours = ours->name();
    report.verdict = DiffVerdict::diverged;
    report.cause = "inputs equal";
    report.line = "first divergence: image0.aligner row 3; inputs equal";
    add("ids", TapStatus::equal);
    add("image0.pixels", TapStatus::equal);
    add("image0.grid", TapStatus::equal);
    add("image0.patches", TapStatus::equal, {"image0.pixels"});
    add("image0.aligner", TapStatus::over, {"image0.patches"});
    add("c0.embed", TapStatus::over, {"ids", "image0.aligner"});
    for (int64_t layer = 0; layer < 2; ++layer) {
      const std::string name = str_cat("c0.layers.", layer);
      add(name + ".topk", layer == 0 ? TapStatus::tie : TapStatus::equal, {"c0.embed"});
      add(name, layer == 0 ? TapStatus::within : TapStatus::broken, {name + ".topk", "c0.embed"});
    }
    add(kHostileName, TapStatus::extra);
    report.first = &report.taps[4];
    report.taps[4].row_label = "image 0, cell (0,3)";
    report.taps[4].first = DiffElement{3, 7, 0.25, 0.5};
    report.taps[6].note = "picks 5 instead of 9; both score 0.5";
  }

  void add(const std::string& name, TapStatus status, std::vector<std::string> parents = {}) {
    TapDiff tap;
    tap.name = name;
    tap.status = status;
    const std::optional<StageMatch> match = stages.match(name);
    tap.stage = match.has_value() ? match->stage : nullptr;
    tap.reference_shape = tap.shape = "[40,16]";
    tap.reference_dtype = tap.dtype = "F32";
    tap.tolerance = {1e-3, 8e-3};
    tap.metrics.elements = kTokens * kWidth;
    tap.metrics.reference_rms = 1;
    if (status != TapStatus::equal) {
      tap.metrics.changed = 7;
      tap.metrics.rms = 0.0125;
      tap.metrics.worst_row_rms = 0.25;
      tap.metrics.worst_row = 3;
    }
    tap.parents = std::move(parents);
    report.taps.push_back(std::move(tap));
  }

  TemporaryFolder folder;
  StageMap stages = sample_stages();
  std::unique_ptr<TraceFile> reference, ours;
  DiffReport report;

 private:
  // 24 x 36 pixels, patches of 4, cells of 2 x 2 patches: 6 x 9 patches in 3 x 5 cells, of which
  // the last column is half beyond the picture.
  void write(std::string_view name, bool is_ours) const {
    Writer writer(folder / name, {.storage = Storage::compact});
    std::vector<int32_t> ids(kTokens);
    for (size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<int32_t>(100 + i);
    }
    writer.add("ids", tensor_of<int32_t>({kTokens}, ids).view());
    std::vector<uint8_t> pixels;
    for (int64_t i = 0; i < int64_t{24} * 36; ++i) {
      const int64_t x = i % 36, y = i / 36;
      pixels.insert(pixels.end(), {static_cast<uint8_t>(x * 7), static_cast<uint8_t>(y * 10),
                                   static_cast<uint8_t>((x + y) % 8 < 4 ? 200 : 40)});
    }
    writer.add("image0.pixels", tensor_of<uint8_t>({24, 36, 3}, pixels).view());
    writer.add("image0.grid", tensor_of<int32_t>({4}, {6, 9, 3, 5}).view());
    add_values(writer, "image0.patches", 54, 0);
    add_values(writer, "image0.aligner", 15, is_ours ? 0.25f : 0);
    add_values(writer, "c0.embed", kTokens, is_ours ? 0.125f : 0);
    std::vector<int32_t> picks;
    for (int32_t i = 0; i < int32_t{kTokens} * 2; ++i) {
      picks.push_back(i % 2 == 0 ? i % 6 : 9 - (is_ours && i == 9 ? 2 : 0));
    }
    for (int64_t layer = 0; layer < 2; ++layer) {
      writer.add(str_cat("c0.layers.", layer, ".topk"),
                 tensor_of<int32_t>({kTokens, 2}, picks).view());
      add_values(writer, str_cat("c0.layers.", layer), kTokens,
                 !is_ours     ? 0
                 : layer == 0 ? 1.0f / 1024
                              : std::numeric_limits<float>::infinity());
    }
    if (is_ours) {
      add_values(writer, kHostileName, 2, 0);
    }
    TraceInfo info;
    info.calls = {{0, kTokens}};
    writer.set_info(info);
    writer.commit();
  }

  // Ones of both signs; row 3 is off by `off`, row 5 by a sixteenth of it.
  static void add_values(Writer& writer, const std::string& name, int64_t rows, float off) {
    std::vector<float> values;
    for (int64_t i = 0; i < rows * kWidth; ++i) {
      const int64_t row = i / kWidth;
      const float own = row == 3 ? off : row == 5 ? off / 16 : 0;
      values.push_back((i % 2 == 0 ? 1.0f : -1.0f) + own);
    }
    writer.add(name, tensor_of<float>({rows, kWidth}, values).view());
  }
};

}  // namespace tessera::trace
