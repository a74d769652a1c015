#include "trace/diff.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/str_cat.h"
#include "trace/diff_judge.h"
#include "trace/diff_rows.h"
#include "trace/row_labels.h"

namespace tessera::trace {
namespace {

constexpr double kWhite = 255;  // of pixels, for the signal-to-noise ratio

// The token that follows a call, chosen by its logits: it stands in the metadata.
Stage token_stage() {
  Stage stage;
  stage.kind = StageKind::picks;
  stage.rows = "last";
  stage.hints = {"logits are equal but the token is not: sampling, or a barred token"};
  return stage;
}

const Stage& sampled_token() {
  static const Stage stage = token_stage();
  return stage;
}

// One tap on its way into the report.
struct Item {
  TapDiff diff;
  std::vector<int64_t> order;
  std::optional<StageMatch> match;
};

class Differ {
 public:
  Differ(const TraceFile& reference, const TraceFile& ours, const StageMap& stages,
         const Tolerances& tolerances, const DiffOptions& options)
      : reference_(reference),
        ours_(ours),
        stages_(stages),
        tolerances_(tolerances),
        options_(options),
        labels_(reference, options.token_text) {}

  DiffReport run() {
    report_.is_forced = ours_.metadata_value("forced") != nullptr;
    collect();
    for (size_t i = 0; i < items_.size(); ++i) {
      if (is_judged(items_[i].diff.status)) {
        compare(items_[i]);
        // Files larger than memory: only the taps at hand stay in it.
        reference_.release(items_[i].diff.name);
        ours_.release(items_[i].diff.name);
      }
      if (options_.on_progress) {
        options_.on_progress(static_cast<int64_t>(i) + 1, static_cast<int64_t>(items_.size()));
      }
    }
    add_tokens();
    std::stable_sort(items_.begin(), items_.end(),
                     [](const Item& a, const Item& b) { return a.order < b.order; });
    report_.reference = reference_.name();
    report_.ours = ours_.name();
    compare_metadata();
    for (Item& item : items_) {
      report_.taps.push_back(std::move(item.diff));
    }
    judge(report_);
    return std::move(report_);
  }

 private:
  void collect() {
    std::set<std::string_view> there(reference_.taps().begin(), reference_.taps().end());
    std::set<std::string_view> here(ours_.taps().begin(), ours_.taps().end());
    std::set<std::string_view> all = there;
    all.insert(here.begin(), here.end());
    taps_.assign(all.begin(), all.end());
    int64_t common = 0;
    for (const std::string_view tap : taps_) {
      Item item;
      item.diff.name = std::string(tap);
      item.match = stages_.match(tap);
      if (item.match.has_value()) {
        item.diff.stage = item.match->stage;
        item.order = item.match->order;
      } else {
        item.order = {std::numeric_limits<int64_t>::max()};
        item.diff.note = "no stage of the map covers it";
      }
      const bool is_there = there.contains(tap), is_here = here.contains(tap);
      common += is_there && is_here ? 1 : 0;
      item.diff.status = !is_here                  ? TapStatus::missing
                         : !is_there               ? TapStatus::extra
                         : !item.match.has_value() ? TapStatus::not_compared
                                                   : TapStatus::equal;
      describe(item.diff);
      items_.push_back(std::move(item));
    }
    if (common == 0) {
      throw Error(ErrorCode::bad_file,
                  str_cat(reference_.name(), " and ", ours_.name(),
                          " have no tap in common; are both traces, with names of one model?"));
    }
  }

  void describe(TapDiff& diff) const {
    describe(reference_, diff.name, diff.reference_shape, diff.reference_dtype);
    describe(ours_, diff.name, diff.shape, diff.dtype);
  }

  static void describe(const TraceFile& trace, const std::string& tap, std::string& shape,
                       std::string& dtype) {
    if (const Excerpt* excerpt = trace.find_excerpt(tap)) {
      shape = list_text(excerpt->shape.dims());
      dtype = str_cat(dtype_name(excerpt->values.dtype), ", excerpt");
    } else if (const std::optional<TensorView> view = trace.find(tap)) {
      shape = list_text(view->shape.dims());
      dtype = dtype_name(view->dtype);
    }
  }

  // The rows of a tap that both sides have, or nothing when only an excerpt of ours is left.
  struct Pair {
    RowView reference;
    RowView ours;
    std::vector<std::byte> gathered;  // rows of ours that an excerpt of the reference has
  };
  std::optional<Pair> rows_of(const std::string& tap) const {
    Pair pair;
    const std::optional<TensorView> ours = ours_.find(tap);
    if (const Excerpt* excerpt = reference_.find_excerpt(tap)) {
      pair.reference = {excerpt->values, excerpt->rows};
      if (const Excerpt* own = ours_.find_excerpt(tap)) {
        if (own->rows != excerpt->rows) {
          return std::nullopt;
        }
        pair.ours = {own->values, own->rows};
        return pair;
      }
      if (!ours.has_value()) {
        return std::nullopt;
      }
      const size_t row_bytes = static_cast<size_t>(excerpt->width() * dtype_bytes(ours->dtype));
      for (const int64_t row : excerpt->rows) {
        const std::byte* data = ours->data + static_cast<size_t>(row) * row_bytes;
        pair.gathered.insert(pair.gathered.end(), data, data + row_bytes);
      }
      pair.ours = {{pair.gathered.data(), ours->dtype, excerpt->values.shape}, excerpt->rows};
      return pair;
    }
    const std::optional<TensorView> reference = reference_.find(tap);
    if (!reference.has_value() || !ours.has_value()) {
      return std::nullopt;
    }
    pair.reference = {*reference, {}};
    pair.ours = {*ours, {}};
    return pair;
  }

  void compare(Item& item) {
    TapDiff& diff = item.diff;
    const Stage& stage = *item.match->stage;
    diff.tolerance = tolerances_.of(diff.name, stage.mantissa_bits);
    diff.parents = stages_.parents(
        *item.match, [&](std::string_view name) { return is_common(name); }, taps_);
    if (diff.reference_shape != diff.shape) {
      diff.status = TapStatus::shape;
      return;
    }
    const std::optional<Pair> pair = rows_of(diff.name);
    if (!pair.has_value()) {
      diff.status = TapStatus::not_compared;
      diff.note = "excerpts of different rows";
      return;
    }
    switch (stage.kind) {
      case StageKind::picks:
      case StageKind::mask:
        compare_picks_of(item, *pair);
        break;
      case StageKind::values:
      case StageKind::integers:
      case StageKind::image:
        compare_values(diff, stage, *pair);
        break;
    }
    if (diff.first.has_value()) {
      diff.row_label = labels_.label(*item.match, diff.first->row);
    }
  }

  static void compare_values(TapDiff& diff, const Stage& stage, const Pair& pair) {
    const bool is_exact = stage.kind != StageKind::values;
    RowComparison c =
        compare_rows(pair.reference, pair.ours, stage.mantissa_bits, diff.tolerance, is_exact);
    diff.metrics = c.metrics;
    diff.first = c.first;
    if (stage.kind == StageKind::image) {
      const double noise = c.metrics.rms * c.metrics.reference_rms;
      diff.metrics.psnr =
          noise > 0 ? 20 * std::log10(kWhite / noise) : std::numeric_limits<double>::infinity();
    }
    diff.status = c.metrics.changed == 0 ? TapStatus::equal
                  : c.metrics.broken > 0 ? TapStatus::broken
                  : c.is_over            ? TapStatus::over
                                         : TapStatus::within;
  }

  void compare_picks_of(Item& item, const Pair& pair) {
    const std::string scores_name = stages_.scores(*item.match);
    std::optional<Pair> scores;
    if (!scores_name.empty() && is_common(scores_name)) {
      scores = rows_of(scores_name);
    }
    PickScores noise;
    if (scores.has_value() && scores->reference.rows() == pair.reference.rows() &&
        scores->reference.view.shape == scores->ours.view.shape) {
      const std::optional<StageMatch> by = stages_.match(scores_name);
      noise = {scores->reference, scores->ours,
               tolerances_.of(scores_name, by.has_value() ? by->stage->mantissa_bits : 23),
               report_.is_forced};
    } else {
      scores.reset();
    }
    const PickComparison c =
        compare_picks(pair.reference, pair.ours, item.match->stage->kind == StageKind::mask,
                      scores.has_value() ? &noise : nullptr);
    item.diff.metrics.elements = pair.reference.view.elements();
    item.diff.metrics.changed = c.changed_rows;
    item.diff.first = c.first;
    item.diff.note = c.note;
    item.diff.status = c.changed_rows == 0 ? TapStatus::equal
                       : c.is_over         ? TapStatus::over
                                           : TapStatus::tie;
  }

  bool is_common(std::string_view name) const {
    return (reference_.find(name).has_value() || reference_.find_excerpt(name) != nullptr) &&
           (ours_.find(name).has_value() || ours_.find_excerpt(name) != nullptr);
  }

  // The tokens of the metadata, each behind the logits of its call.
  void add_tokens() {
    const std::vector<int64_t>& there = reference_.info().tokens;
    const std::vector<int64_t>& here = ours_.info().tokens;
    for (size_t k = 0; k < std::min(there.size(), here.size()); ++k) {
      const std::string logits = str_cat("c", k, ".logits");
      Item item;
      item.diff.name = str_cat("c", k, ".token");
      item.diff.stage = &sampled_token();
      item.match = stages_.match(logits);
      item.order = item.match.has_value()
                       ? item.match->order
                       : std::vector<int64_t>{std::numeric_limits<int64_t>::max()};
      item.order.push_back(1);
      item.diff.metrics.elements = 1;
      if (is_common(logits)) {
        item.diff.parents = {logits};
      }
      if (there[k] != here[k]) {
        judge_token(item, logits, there[k], here[k]);
      }
      items_.push_back(std::move(item));
    }
  }

  void judge_token(Item& item, const std::string& logits, int64_t there, int64_t here) {
    const TensorView reference{reinterpret_cast<const std::byte*>(&there), DType::i64, {1, 1}};
    const TensorView ours{reinterpret_cast<const std::byte*>(&here), DType::i64, {1, 1}};
    PickScores noise;
    const std::optional<Pair> scores = is_common(logits) ? rows_of(logits) : std::nullopt;
    const bool has_scores = scores.has_value() && scores->reference.rows() > 0 &&
                            scores->reference.view.shape == scores->ours.view.shape;
    if (has_scores) {
      const auto last_row = [](const RowView& rows) {
        const int64_t bytes = rows.width() * dtype_bytes(rows.view.dtype);
        return RowView{
            {rows.view.data + (rows.rows() - 1) * bytes, rows.view.dtype, {1, rows.width()}}, {}};
      };
      noise = {
          last_row(scores->reference), last_row(scores->ours),
          tolerances_.of(logits, item.match.has_value() ? item.match->stage->mantissa_bits : 23)};
    }
    const PickComparison c =
        compare_picks({reference, {}}, {ours, {}}, false, has_scores ? &noise : nullptr);
    item.diff.metrics.changed = 1;
    item.diff.first = c.first;
    item.diff.note = c.note;
    item.diff.status = c.is_over ? TapStatus::over : TapStatus::tie;
  }

  // What the files say about themselves, said before any number.
  void compare_metadata() {
    const TraceInfo& a = reference_.info();
    const TraceInfo& b = ours_.info();
    const auto differ = [&](std::string_view what, const std::string& there,
                            const std::string& here) {
      if (!there.empty() && !here.empty() && there != here) {
        report_.warnings.push_back(str_cat("other ", what, ": reference ", there, ", ours ", here));
      }
    };
    differ("model (SHA-256 of config.json)", a.model, b.model);
    if (!a.request.is_null() && !b.request.is_null() &&
        io::dump_compact(a.request) != io::dump_compact(b.request)) {
      report_.warnings.push_back("the requests of the two traces differ (metadata `case`)");
    }
    if (!a.calls.empty() && !b.calls.empty() && a.calls != b.calls) {
      report_.warnings.push_back(str_cat("the traces have other forward calls: ", a.calls.size(),
                                         " in the reference, ", b.calls.size(),
                                         " in ours, or other rows"));
    }
    differ("precision of the tower", a.activations, b.activations);
    differ("rule of index keys", a.index_keys, b.index_keys);
  }

  const TraceFile& reference_;
  const TraceFile& ours_;
  const StageMap& stages_;
  const Tolerances& tolerances_;
  const DiffOptions& options_;
  RowLabels labels_;
  std::vector<std::string_view> taps_;  // of either side
  std::vector<Item> items_;
  DiffReport report_;
};

}  // namespace

DiffReport diff(const TraceFile& reference, const TraceFile& ours, const StageMap& stages,
                const Tolerances& tolerances, const DiffOptions& options) {
  return Differ(reference, ours, stages, tolerances, options).run();
}

}  // namespace tessera::trace
