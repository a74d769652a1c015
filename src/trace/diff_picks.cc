// Lists of picks against each other.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>

#include "base/str_cat.h"
#include "trace/convert.h"
#include "trace/diff_rows.h"

namespace tessera::trace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::set<int64_t> picks_of(const RowView& lists, int64_t row, bool is_mask) {
  const int64_t width = lists.width();
  std::vector<double> values(static_cast<size_t>(width));
  widen(lists.view, row * width, values);
  std::set<int64_t> picks;
  for (int64_t i = 0; i < width; ++i) {
    const double value = values[static_cast<size_t>(i)];
    if (is_mask && value != 0) {
      picks.insert(i);
    } else if (!is_mask && value >= 0) {
      picks.insert(static_cast<int64_t>(value));
    }
  }
  return picks;
}

std::vector<int64_t> without(const std::set<int64_t>& a, const std::set<int64_t>& b) {
  std::vector<int64_t> out;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

std::vector<double> row_of(const RowView& scores, int64_t row) {
  std::vector<double> values(static_cast<size_t>(scores.width()));
  widen(scores.view, row * scores.width(), values);
  return values;
}

double largest(const std::vector<double>& values, const std::vector<int64_t>& at) {
  double most = -kInfinity;
  for (const int64_t i : at) {
    most = std::max(most, values[static_cast<size_t>(i)]);
  }
  return most;
}

struct Swap {
  bool is_explained = false;
  std::string note;
};

// Scores of one pick or of one set of picks, there and here.
struct Scores {
  double reference = 0;
  double ours = 0;
};

// What may separate the scores of a row there from those here.
struct Noise {
  double most = 0;         // that legitimate evaluations differ by
  bool is_absent = false;  // the picks of both sides were made from the same scores
};

// Whether noise made `won` overtake `lost`: how far their scores moved towards the swap, against
// what noise may do.
Swap judge_swap(const Scores& lost, const Scores& won, const Noise& noise) {
  const double moved = (won.ours - won.reference) + (lost.reference - lost.ours);
  const bool is_exact_tie = lost.reference == won.reference && lost.ours == won.ours;
  Swap swap;
  if (is_exact_tie) {
    swap.is_explained = !noise.is_absent;
    swap.note =
        str_cat("both score ", lost.reference,
                noise.is_absent ? "; from the same scores, so ties are ordered otherwise" : "");
    return swap;
  }
  swap.is_explained = std::isfinite(moved) && moved <= noise.most && moved > 0;
  swap.note = str_cat("scores ", lost.reference, " and ", won.reference, " there, ", lost.ours,
                      " and ", won.ours, " here; noise explains ", noise.most);
  return swap;
}

// A mask is made of blocks with one score each, their largest; of lists every pair must be
// explained.
Swap judge_swaps(const std::vector<double>& reference, const std::vector<double>& ours,
                 const std::vector<int64_t>& lost, const std::vector<int64_t>& won, bool is_mask,
                 const Noise& noise) {
  if (is_mask) {
    return judge_swap({largest(reference, lost), largest(ours, lost)},
                      {largest(reference, won), largest(ours, won)}, noise);
  }
  Swap swap;
  for (const int64_t a : lost) {
    for (const int64_t b : won) {
      swap = judge_swap({reference[static_cast<size_t>(a)], ours[static_cast<size_t>(a)]},
                        {reference[static_cast<size_t>(b)], ours[static_cast<size_t>(b)]}, noise);
      if (!swap.is_explained) {
        return swap;
      }
    }
  }
  return swap;
}

std::string pick_text(const std::vector<int64_t>& picks) {
  constexpr size_t kShown = 4;
  std::string text;
  for (size_t i = 0; i < std::min(picks.size(), kShown); ++i) {
    text += str_cat(i == 0 ? "" : ", ", picks[i]);
  }
  return picks.size() > kShown ? str_cat(text, ", ... (", picks.size(), ")") : text;
}

double noise_of(const std::vector<double>& scores, const Tolerance& tolerance) {
  double squares = 0;
  int64_t count = 0;
  for (const double x : scores) {
    if (std::isfinite(x)) {
      squares += x * x;
      ++count;
    }
  }
  return count == 0 ? 0 : 2 * tolerance.row * std::sqrt(squares / static_cast<double>(count));
}

}  // namespace

PickComparison compare_picks(const RowView& reference, const RowView& ours, bool is_mask,
                             const PickScores* scores) {
  PickComparison out;
  for (int64_t row = 0; row < reference.rows(); ++row) {
    const std::set<int64_t> there = picks_of(reference, row, is_mask);
    const std::set<int64_t> here = picks_of(ours, row, is_mask);
    if (there == here) {
      continue;
    }
    ++out.changed_rows;
    const std::vector<int64_t> lost = without(there, here), won = without(here, there);
    Swap swap;
    if (scores == nullptr) {
      swap.note = "no scores in the traces to judge it by";
    } else if (lost.size() != won.size()) {
      swap.note = str_cat(there.size(), " picks there, ", here.size(), " here");
    } else {
      const std::vector<double> r = row_of(scores->reference, row), o = row_of(scores->ours, row);
      const int64_t most = std::max(lost.back(), won.back());
      if (most >= static_cast<int64_t>(std::min(r.size(), o.size()))) {
        swap.note = str_cat("pick ", most, " has no score");
      } else {
        const Noise noise = {noise_of(r, scores->tolerance), scores->is_forced || r == o};
        swap = judge_swaps(r, o, lost, won, is_mask, noise);
      }
    }
    const bool is_new = !out.first.has_value() || (!out.is_over && !swap.is_explained);
    if (is_new) {
      const auto shown = [](const std::vector<int64_t>& picks) {
        return picks.empty() ? -1.0 : static_cast<double>(picks.front());
      };
      out.first = DiffElement{reference.number(row), -1, shown(lost), shown(won)};
      out.note =
          str_cat("picks ", pick_text(won), " instead of ", pick_text(lost), "; ", swap.note);
    }
    out.is_over = out.is_over || !swap.is_explained;
  }
  return out;
}

}  // namespace tessera::trace
