// Tolerances from two runs of one implementation.
#include <algorithm>
#include <map>

#include "base/str_cat.h"
#include "trace/diff.h"

namespace tessera::trace {
namespace {

using io::Json;

struct Noise {
  double rms = 0;
  double row = 0;
  int mantissa_bits = 23;
};

// The first call and the later ones differ in kind (many rows, one row); layers and blocks share a
// rule: "c0.layers.*.attn".
std::string rule_globs(const Stage& stage, bool is_first_call) {
  std::string globs;
  for (size_t at = 0; at < stage.tap.size();) {
    const size_t end = stage.tap[at] == '{' ? stage.tap.find('}', at) : std::string::npos;
    if (end == std::string::npos) {
      globs.push_back(stage.tap[at++]);
      continue;
    }
    globs += stage.tap.substr(at, end + 1 - at) == "{k}" && is_first_call ? "0" : "*";
    at = end + 1;
  }
  return globs;
}

}  // namespace

Json learn_tolerances(const TraceFile& a, const TraceFile& b, const StageMap& stages,
                      double factor) {
  const DiffReport report = diff(a, b, stages, Tolerances());
  std::map<std::string, Noise> noise;
  for (const TapDiff& tap : report.taps) {
    const std::optional<StageMatch> match = stages.match(tap.name);
    if (!match.has_value() || match->stage->kind != StageKind::values ||
        tap.status == TapStatus::missing || tap.status == TapStatus::extra) {
      continue;
    }
    const auto call = match->numbers.find("k");
    const bool is_first = call == match->numbers.end() || call->second == 0;
    Noise& own = noise[rule_globs(*match->stage, is_first)];
    own.rms = std::max(own.rms, tap.metrics.rms);
    own.row = std::max(own.row, tap.metrics.worst_row_rms);
    own.mantissa_bits = match->stage->mantissa_bits;
  }
  // The first rule that matches counts: of two that do, the longer one says more ("c0." more than
  // "c*.", a layer's attention more than the layer).
  std::vector<std::pair<std::string, Noise>> ordered(noise.begin(), noise.end());
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& left, const auto& right) {
    const bool is_general = left.first.starts_with("c*");
    const bool is_other_general = right.first.starts_with("c*");
    return is_general != is_other_general ? is_other_general
                                          : left.first.size() > right.first.size();
  });
  Json rules = Json::array();
  for (const auto& [globs, own] : ordered) {
    const Tolerance least = Tolerances::of_grid(own.mantissa_bits);
    Json rule = Json::object();
    rule.set("taps", Json::string(globs));
    rule.set("rms", Json::number(std::max(factor * own.rms, least.rms / 4)));
    rule.set("row", Json::number(std::max(factor * own.row, least.row / 4)));
    rules.items().push_back(std::move(rule));
  }
  Json json = Json::object();
  json.set("format", Json::string("tolerance/1"));
  json.set("source", Json::string(str_cat("two runs, times ", factor)));
  json.set("rules", std::move(rules));
  return json;
}

}  // namespace tessera::trace
