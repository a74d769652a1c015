// A comparison as JSON and as text.
#include <algorithm>
#include <cmath>

#include "base/str_cat.h"
#include "base/text.h"
#include "trace/diff.h"

namespace tessera::trace {
namespace {

using io::Json;

Json element_json(const DiffElement& element) {
  Json json = Json::object();
  json.set("row", Json::number(element.row));
  json.set("column", Json::number(element.column));
  json.set("reference", Json::number(element.reference));
  json.set("ours", Json::number(element.ours));
  return json;
}

Json metrics_json(const TapDiff& tap) {
  const DiffMetrics& m = tap.metrics;
  Json json = Json::object();
  json.set("elements", Json::number(m.elements));
  json.set("changed", Json::number(m.changed));
  json.set("outside", Json::number(m.outside));
  json.set("broken", Json::number(m.broken));
  json.set("max_abs", Json::number(m.max_abs));
  json.set("max_rel", Json::number(m.max_rel));
  json.set("rms", Json::number(m.rms));
  json.set("worst_row", Json::number(m.worst_row));
  json.set("worst_row_rms", Json::number(m.worst_row_rms));
  json.set("cosine", Json::number(m.cosine));
  json.set("ulp", Json::number(m.ulp));
  if (tap.stage != nullptr && tap.stage->kind == StageKind::image) {
    json.set("psnr", Json::number(m.psnr));
  }
  return json;
}

std::string kind_of(const TapDiff& tap) {
  return tap.stage == nullptr ? "" : std::string(stage_kind_name(tap.stage->kind));
}

Json tap_json(const TapDiff& tap) {
  Json json = Json::object();
  json.set("name", Json::string(tap.name));
  json.set("kind", Json::string(kind_of(tap)));
  json.set("status", Json::string(std::string(tap_status_name(tap.status))));
  json.set("shape", Json::string(tap.reference_shape.empty() ? tap.shape : tap.reference_shape));
  if (tap.reference_shape != tap.shape) {
    json.set("shape_ours", Json::string(tap.shape));
  }
  json.set("dtype", Json::string(tap.reference_dtype));
  json.set("dtype_ours", Json::string(tap.dtype));
  json.set("metrics", metrics_json(tap));
  Json tolerance = Json::object();
  tolerance.set("rms", Json::number(tap.tolerance.rms));
  tolerance.set("row", Json::number(tap.tolerance.row));
  json.set("tolerance", std::move(tolerance));
  if (tap.first.has_value()) {
    json.set("first", element_json(*tap.first));
  }
  if (!tap.row_label.empty()) {
    json.set("label", Json::string(tap.row_label));
  }
  if (!tap.note.empty()) {
    json.set("note", Json::string(tap.note));
  }
  return json;
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) {
    text.append(width - text.size(), ' ');
  }
  return text + "  ";
}

// Three significant digits.
std::string short_number(double value) {
  if (!std::isfinite(value) || value == 0) {
    return str_cat(value);
  }
  const double scale = std::pow(10.0, 2 - std::floor(std::log10(std::fabs(value))));
  return str_cat(std::isfinite(scale) ? std::round(value * scale) / scale : value);
}

bool is_shown(const TapDiff& tap, bool all) {
  return all || (tap.status != TapStatus::equal && tap.status != TapStatus::within &&
                 tap.status != TapStatus::extra && tap.status != TapStatus::missing);
}

// "35 taps only in the reference: c0.dspark.logits, c0.dspark.stage.0, ..."; empty for none.
std::string one_sided(const DiffReport& report, TapStatus status, std::string_view side) {
  constexpr int64_t kNamed = 4;
  int64_t count = 0;
  std::string names;
  for (const TapDiff& tap : report.taps) {
    if (tap.status == status && ++count <= kNamed) {
      names += str_cat(count == 1 ? "" : ", ", tap.name);
    }
  }
  return count == 0 ? ""
                    : str_cat(count, " taps only in ", side, ": ", names,
                              count > kNamed ? ", ..." : "", "\n");
}

}  // namespace

Json to_json(const DiffReport& report) {
  Json json = Json::object();
  json.set("verdict", Json::string(std::string(diff_verdict_name(report.verdict))));
  Json first;
  if (report.first != nullptr) {
    const TapDiff& tap = *report.first;
    first = Json::object();
    first.set("name", Json::string(tap.name));
    first.set("kind", Json::string(kind_of(tap)));
    first.set("row", Json::number(tap.first.has_value() ? tap.first->row : int64_t{-1}));
    first.set("reference", tap.first.has_value() ? Json::number(tap.first->reference) : Json());
    first.set("ours", tap.first.has_value() ? Json::number(tap.first->ours) : Json());
    first.set("cause", Json::string(report.cause));
    first.set("label", Json::string(tap.row_label));
    Json hints = Json::array();
    for (const std::string& hint :
         tap.stage == nullptr ? std::vector<std::string>() : tap.stage->hints) {
      hints.items().push_back(Json::string(hint));
    }
    first.set("hints", std::move(hints));
  }
  json.set("first", std::move(first));
  json.set("line", Json::string(report.line));
  json.set("forced", Json::boolean(report.is_forced));
  Json warnings = Json::array();
  for (const std::string& warning : report.warnings) {
    warnings.items().push_back(Json::string(warning));
  }
  json.set("warnings", std::move(warnings));
  Json taps = Json::array();
  for (const TapDiff& tap : report.taps) {
    taps.items().push_back(tap_json(tap));
  }
  json.set("tensors", std::move(taps));
  return json;
}

std::string to_text(const DiffReport& report, bool all) {
  constexpr size_t kMaxName = 48;
  std::string out;
  for (const std::string& warning : report.warnings) {
    out += str_cat("note: ", warning, "\n");
  }
  out += report.line + "\n";
  if (report.verdict == DiffVerdict::diverged && report.first->stage != nullptr) {
    for (const std::string& hint : report.first->stage->hints) {
      out += str_cat("  often: ", hint, "\n");
    }
  }
  std::string table;
  for (const TapDiff& tap : report.taps) {
    if (is_shown(tap, all)) {
      const DiffMetrics& m = tap.metrics;
      table +=
          padded(tap.name, kMaxName) + padded(std::string(tap_status_name(tap.status)), 12) +
          padded(short_number(m.rms), 10) + padded(short_number(m.worst_row_rms), 10) +
          padded(short_number(m.max_abs), 10) + padded(str_cat(m.changed), 9) +
          (tap.status == TapStatus::shape ? str_cat(tap.shape, " instead of ", tap.reference_shape)
                                          : tap.note) +
          "\n";
    }
  }
  if (!table.empty()) {
    out += "\n" + padded("tap", kMaxName) + padded("status", 12) + padded("rms", 10) +
           padded("worst row", 10) + padded("max abs", 10) + "changed\n" + table;
  }
  if (!all) {
    out += one_sided(report, TapStatus::missing, "the reference");
    out += one_sided(report, TapStatus::extra, "ours");
  }
  return out;
}

}  // namespace tessera::trace
