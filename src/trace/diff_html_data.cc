#include "trace/diff_html_data.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/str_cat.h"
#include "io/json.h"
#include "trace/diff_html_panels.h"
#include "trace/diff_html_text.h"
#include "trace/row_labels.h"

namespace tessera::trace {
namespace {

using io::Json;

// Bounds of the parts, in bytes of the page; together below kMostPageBytes.
constexpr size_t kMostTapBytes = 4'500'000;
constexpr size_t kMostLabelBytes = 200'000;
constexpr size_t kMostHintBytes = 200'000;
constexpr size_t kMostWarnings = 50;
constexpr size_t kMostParents = 12;
constexpr size_t kMostCalls = 4096;
constexpr size_t kMostPanels = 64;
constexpr size_t kMostPanelsBefore = 24;  // of them for taps before the verdict's
constexpr double kThumbnailSide = 512;    // pixels; less when there are more than kLargeThumbnails
constexpr double kLargeThumbnails = 4.0 / 3;

// Longest texts, in bytes.
constexpr size_t kMostName = 200;
constexpr size_t kMostShape = 80;
constexpr size_t kMostLabel = 120;
constexpr size_t kMostText = 500;

Json text(std::string_view from, size_t most) { return Json::string(clean_text(from, most)); }

Json number(double value, int digits) {
  if (!std::isfinite(value)) {
    return Json::string(std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
  }
  std::array<char, 40> spelled;
  const std::to_chars_result end = std::to_chars(spelled.data(), spelled.data() + spelled.size(),
                                                 value, std::chars_format::general, digits);
  return Json::number_spelled(std::string(spelled.data(), end.ptr));
}
Json number(double value) { return number(value, 4); }
Json whole(int64_t value) { return Json::number(value); }
Json whole(size_t value) { return Json::number(static_cast<int64_t>(value)); }

Json texts(const std::vector<std::string>& from, size_t most_items) {
  Json list = Json::array();
  for (size_t i = 0; i < std::min(from.size(), most_items); ++i) {
    list.items().push_back(text(from[i], kMostText));
  }
  return list;
}

size_t page_bytes(const Json& json) { return script_json(io::dump_compact(json)).size(); }

Json names(const std::vector<std::string>& of) { return texts(of, of.size()); }

Json metrics_json(const DiffMetrics& m) {
  return Json::array({whole(m.elements), whole(m.changed), whole(m.outside), whole(m.broken),
                      number(m.max_abs), number(m.max_rel), number(m.rms), number(m.worst_row_rms),
                      whole(m.worst_row), number(m.cosine, 8), number(m.psnr), number(m.ulp),
                      number(m.reference_rms)});
}

Json element_json(const std::optional<DiffElement>& element) {
  if (!element.has_value()) {
    return {};
  }
  return Json::array({whole(element->row), whole(element->column), number(element->reference, 9),
                      number(element->ours, 9)});
}

// What a reader wants to see first: 0.
int rank(TapStatus status) {
  switch (status) {
    case TapStatus::over:
    case TapStatus::broken:
      return 0;
    case TapStatus::shape:
    case TapStatus::missing:
      return 1;
    case TapStatus::tie:
      return 2;
    case TapStatus::within:
      return 3;
    case TapStatus::extra:
      return 4;
    default:
      return 5;
  }
}

// Places of the taps, by rank, then in order.
std::vector<size_t> by_rank(const std::vector<TapDiff>& taps) {
  std::vector<size_t> order(taps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rank(taps[a].status) < rank(taps[b].status); });
  return order;
}

class PageData {
 public:
  PageData(const DiffReport& report, const TraceFile& reference, const TraceFile& ours,
           const StageMap& stages, const DiffOptions& options)
      : report_(report),
        reference_(reference),
        ours_(ours),
        stages_(stages),
        labels_(reference, options.token_text) {
    for (size_t i = 0; i < report.taps.size(); ++i) {
      numbers_.emplace(report.taps[i].name, i);
    }
  }

  std::string run() {
    const std::string taps = taps_json();  // fills stage_list_
    Json head = head_json();
    head.set("stages", std::move(stage_list_));
    head.set("fields",
             names({"index", "name", "status", "stage", "shape", "ourShape", "dtype", "ourDtype",
                    "tolerance", "metrics", "parents", "first", "label", "note"}));
    head.set("metrics",
             names({"elements", "changed", "outside", "broken", "maxAbs", "maxRel", "rms",
                    "worstRowRms", "worstRow", "cosine", "psnr", "ulp", "referenceRms"}));
    head.set("panels", panels_json());  // fills pictures_ and label_lists_
    head.set("labels", std::move(label_lists_));
    head.set("pictures", pictures_json());
    std::string out = io::dump_compact(head);
    out.pop_back();  // the closing brace
    return str_cat(out, ",\"taps\":[", taps, "]}");
  }

 private:
  Json head_json() const {
    Json head = Json::object();
    head.set("reference", text(report_.reference, kMostText));
    head.set("ours", text(report_.ours, kMostText));
    head.set("model", text(stages_.name(), kMostName));
    head.set("verdict", text(diff_verdict_name(report_.verdict), kMostName));
    head.set("forced", Json::boolean(report_.is_forced));
    head.set("warnings", texts(report_.warnings, kMostWarnings));
    int64_t first = -1;
    std::map<TapStatus, int64_t> counts;
    for (size_t i = 0; i < report_.taps.size(); ++i) {
      ++counts[report_.taps[i].status];
      first = report_.first == &report_.taps[i] ? static_cast<int64_t>(i) : first;
    }
    head.set("first", whole(first));
    head.set("total", whole(report_.taps.size()));
    Json by_status = Json::object();
    for (const auto& [status, count] : counts) {
      by_status.set(std::string(tap_status_name(status)), whole(count));
    }
    head.set("counts", std::move(by_status));
    Json calls = Json::array();
    for (const TraceCall& call : reference_.info().calls) {
      if (calls.items().size() < kMostCalls) {
        calls.items().push_back(Json::array({whole(call.start), whole(call.rows)}));
      }
    }
    head.set("calls", std::move(calls));
    return head;
  }

  // The place of a stage in the list; -1 for none.
  int64_t stage_number(const Stage* stage) {
    if (stage == nullptr) {
      return -1;
    }
    const auto [known, is_new] =
        stage_numbers_.emplace(stage, static_cast<int64_t>(stage_list_.items().size()));
    if (is_new) {
      Json json = Json::object();
      json.set("kind", text(stage_kind_name(stage->kind), kMostName));
      json.set("rows", text(stage->rows, kMostName));
      Json hints = texts(stage->hints, 16);
      hint_bytes_ += page_bytes(hints);
      json.set("hints", hint_bytes_ > kMostHintBytes ? Json::array() : std::move(hints));
      stage_list_.items().push_back(std::move(json));
    }
    return known->second;
  }

  Json parents_json(const TapDiff& tap) const {
    Json parents = Json::array();
    for (size_t i = 0; i < std::min(tap.parents.size(), kMostParents); ++i) {
      const auto known = numbers_.find(tap.parents[i]);
      parents.items().push_back(known == numbers_.end() ? text(tap.parents[i], kMostName)
                                                        : whole(known->second));
    }
    return parents;
  }

  // The list of fields of a tap. In brief: without the element, the label and the note.
  std::string tap_text(size_t place, bool is_brief) {
    const TapDiff& tap = report_.taps[place];
    const auto ours_or_null = [](const std::string& reference, const std::string& ours) {
      return reference == ours ? Json() : text(ours, kMostShape);
    };
    Json fields = Json::array(
        {whole(place), text(tap.name, kMostName), text(tap_status_name(tap.status), kMostName),
         whole(stage_number(tap.stage)), text(tap.reference_shape, kMostShape),
         ours_or_null(tap.reference_shape, tap.shape), text(tap.reference_dtype, kMostShape),
         ours_or_null(tap.reference_dtype, tap.dtype),
         Json::array({number(tap.tolerance.rms), number(tap.tolerance.row)}),
         metrics_json(tap.metrics), parents_json(tap)});
    const bool has_more = tap.first.has_value() || !tap.row_label.empty() || !tap.note.empty();
    if (!is_brief && has_more) {
      fields.items().push_back(element_json(tap.first));
      fields.items().push_back(text(tap.row_label, kMostText));
      fields.items().push_back(text(tap.note, kMostText));
    }
    return script_json(io::dump_compact(fields));
  }

  // As many taps as fit; when not all do, those that are in order are told in brief.
  std::string taps_json() {
    const std::vector<size_t> order = by_rank(report_.taps);
    std::map<size_t, std::string> kept;
    for (const bool is_brief : {false, true}) {
      kept.clear();
      size_t bytes = 0;
      for (const size_t place : order) {
        std::string fields = tap_text(place, is_brief && rank(report_.taps[place].status) >= 3);
        bytes += fields.size() + 1;
        if (bytes > kMostTapBytes) {
          break;
        }
        kept.emplace(place, std::move(fields));
      }
      if (kept.size() == order.size()) {
        break;
      }
    }
    std::string out;
    for (const auto& [place, fields] : kept) {
      out += str_cat(out.empty() ? "" : ",", fields);
    }
    return out;
  }

  // The tap of the verdict, those before it, from the nearest on, and then all by rank.
  std::vector<size_t> panel_order() const {
    std::vector<size_t> order;
    for (size_t i = report_.taps.size(); report_.first != nullptr && i > 0; --i) {
      const TapDiff& tap = report_.taps[i - 1];
      const bool is_near = !order.empty() && tap.status != TapStatus::equal;
      if (&tap == report_.first || (is_near && order.size() < kMostPanelsBefore)) {
        order.push_back(i - 1);
      }
    }
    const std::set<size_t> taken(order.begin(), order.end());
    for (const size_t place : by_rank(report_.taps)) {
      if (!taken.contains(place)) {
        order.push_back(place);
      }
    }
    return order;
  }

  Json panels_json() {
    Json panels = Json::array();
    for (const size_t place : panel_order()) {
      if (panels.items().size() == kMostPanels) {
        break;
      }
      const TapDiff& tap = report_.taps[place];
      const std::optional<TapPanel> panel = tap_panel(tap, reference_, ours_);
      if (panel.has_value()) {
        panels.items().push_back(panel_json(place, *panel));
      }
    }
    return panels;
  }

  Json panel_json(size_t place, const TapPanel& panel) {
    constexpr std::string_view kMeasures[] = {"rms", "share", "levels"};
    Json json = Json::object();
    json.set("tap", whole(place));
    if (panel.histogram.has_value()) {
      Json counts = Json::array();
      for (const int64_t count : panel.histogram->counts) {
        counts.items().push_back(whole(count));
      }
      Json histogram = Json::object();
      histogram.set("counts", std::move(counts));
      histogram.set("equal", whole(panel.histogram->equal));
      histogram.set("broken", whole(panel.histogram->broken));
      json.set("histogram", std::move(histogram));
    }
    const RowPanel& rows = panel.rows;
    json.set("measure", Json::string(std::string(kMeasures[static_cast<size_t>(rows.measure)])));
    json.set("rows", whole(rows.rows));
    json.set("step", whole(rows.step));
    json.set("start", whole(rows.start));
    Json values = Json::array();
    for (const double value : rows.values) {
      values.items().push_back(std::isnan(value) ? Json() : number(value, 3));
    }
    json.set("values", std::move(values));
    if (rows.grid.has_value()) {
      json.set("grid", grid_json(*rows.grid));
    }
    json.set("labels", labels_of(report_.taps[place], rows));
    return json;
  }

  Json grid_json(const RowGrid& grid) {
    Json json = Json::object();
    json.set("rows", whole(grid.rows));
    json.set("columns", whole(grid.columns));
    json.set("height", number(grid.height, 8));
    json.set("width", number(grid.width, 8));
    json.set("picture", text(grid.picture, kMostName));
    if (!grid.picture.empty()) {
      pictures_.insert(grid.picture);
    }
    return json;
  }

  // The name of the list that has the labels of the rows; null if there is none.
  Json labels_of(const TapDiff& tap, const RowPanel& rows) {
    const std::optional<StageMatch> match = stages_.match(tap.name);
    if (!match.has_value() || rows.start < 0 || rows.step != 1) {
      return {};
    }
    const size_t dot = tap.name.find('.');
    const std::string part =
        dot == std::string::npos ? "" : clean_text(tap.name.substr(0, dot), kMostName);
    if (label_lists_.find(part) == nullptr) {
      Json list = Json::array();
      for (int64_t row = 0; row < rows.rows; ++row) {
        list.items().push_back(text(labels_.label(*match, row), kMostLabel));
      }
      label_bytes_ += page_bytes(list);
      if (label_bytes_ > kMostLabelBytes) {
        return {};
      }
      label_lists_.set(part, std::move(list));
    }
    return Json::string(part);
  }

  Json pictures_json() const {
    const double count = std::max(1.0, static_cast<double>(pictures_.size()) / kLargeThumbnails);
    const int64_t side = static_cast<int64_t>(kThumbnailSide / std::sqrt(count));
    Json pictures = Json::object();
    for (const std::string& name : pictures_) {
      const std::optional<Thumbnail> small = thumbnail(reference_, str_cat(name, ".pixels"), side);
      if (small.has_value()) {
        Json json = Json::object();
        json.set("width", whole(small->width));
        json.set("height", whole(small->height));
        json.set("fullWidth", whole(small->full_width));
        json.set("fullHeight", whole(small->full_height));
        json.set("rgb", Json::string(to_base64(std::as_bytes(std::span(small->pixels)))));
        pictures.set(clean_text(name, kMostName), std::move(json));
      }
    }
    return pictures;
  }

  const DiffReport& report_;
  const TraceFile& reference_;
  const TraceFile& ours_;
  const StageMap& stages_;
  RowLabels labels_;
  std::map<std::string_view, size_t> numbers_;  // of the taps, by name
  std::map<const Stage*, int64_t> stage_numbers_;
  Json stage_list_ = Json::array();
  Json label_lists_ = Json::object();
  std::set<std::string> pictures_;  // that a panel lies on
  size_t hint_bytes_ = 0, label_bytes_ = 0;
};

}  // namespace

std::string page_data(const DiffReport& report, const TraceFile& reference, const TraceFile& ours,
                      const StageMap& stages, const DiffOptions& options) {
  return PageData(report, reference, ours, stages, options).run();
}

}  // namespace tessera::trace
