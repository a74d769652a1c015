#include "trace/diff_html_rows.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>

#include "trace/diff_rows.h"

namespace tessera::trace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::optional<RowPairs> excerpt_pairs(const Excerpt& excerpt, std::string_view tap,
                                      const TraceFile& ours) {
  RowPairs pairs;
  pairs.reference = excerpt.values;
  pairs.numbers = excerpt.rows;
  pairs.shape = excerpt.shape;
  if (const Excerpt* own = ours.find_excerpt(tap)) {
    if (own->rows != excerpt.rows || own->shape != excerpt.shape) {
      return std::nullopt;
    }
    pairs.ours = own->values;
    return pairs;
  }
  const std::optional<TensorView> whole = ours.find(tap);
  if (!whole.has_value() || whole->shape != excerpt.shape) {
    return std::nullopt;
  }
  pairs.ours = *whole;
  pairs.is_ours_whole = true;
  return pairs;
}

// Finds bins without a logarithm: a bin is wider than a power of two, so the exponent leaves at
// most one border to look at.
class BinFinder {
 public:
  BinFinder() {
    for (int b = 0; b <= Histogram::kBins; ++b) {
      borders_[static_cast<size_t>(b)] = std::pow(10.0, Histogram::kFirstExponent + 0.5 * b);
    }
    for (int e = 0; e < 2048; ++e) {
      const double least = std::bit_cast<double>(static_cast<uint64_t>(e) << 52);
      const auto above = std::upper_bound(borders_.begin(), borders_.end() - 1, least);
      const auto bin = std::distance(borders_.begin(), above) - 1;
      first_[static_cast<size_t>(e)] =
          static_cast<uint8_t>(std::clamp<std::ptrdiff_t>(bin, 0, Histogram::kBins - 1));
    }
  }

  // x >= 0, may be infinite.
  size_t bin(double x) const {
    const size_t first = first_[std::bit_cast<uint64_t>(x) >> 52];
    return first + (first + 1 < Histogram::kBins && x >= borders_[first + 1] ? 1 : 0);
  }

 private:
  std::array<double, Histogram::kBins + 1> borders_;
  std::array<uint8_t, 2048> first_;
};

// What a list picks, ascending: its numbers from 0 on, or the places of a mask that are not 0.
std::vector<double> picks_of(const TensorView& view, int64_t begin, int64_t width, bool is_mask) {
  std::vector<double> values(static_cast<size_t>(width)), picks;
  widen(view, begin, values);
  for (size_t i = 0; i < values.size(); ++i) {
    if (is_mask && values[i] != 0) {
      picks.push_back(static_cast<double>(i));
    } else if (!is_mask && values[i] >= 0) {
      picks.push_back(values[i]);
    }
  }
  std::sort(picks.begin(), picks.end());
  picks.erase(std::unique(picks.begin(), picks.end()), picks.end());
  return picks;
}

}  // namespace

bool is_equal_element(double reference, double ours) {
  return reference == ours || (std::isnan(reference) && std::isnan(ours));
}

bool RowPairs::has_equal_bytes(int64_t i) const {
  const int64_t size = dtype_bytes(reference.dtype);
  return reference.dtype == ours.dtype &&
         std::memcmp(reference.data + reference_begin(i) * size, ours.data + ours_begin(i) * size,
                     static_cast<size_t>(width * size)) == 0;
}

std::optional<RowPairs> row_pairs(std::string_view tap, const TraceFile& reference,
                                  const TraceFile& ours) {
  std::optional<RowPairs> pairs;
  if (const Excerpt* excerpt = reference.find_excerpt(tap)) {
    pairs = excerpt_pairs(*excerpt, tap, ours);
  } else {
    const std::optional<TensorView> there = reference.find(tap);
    const std::optional<TensorView> here = ours.find(tap);
    if (there.has_value() && here.has_value() && there->shape == here->shape) {
      pairs.emplace();
      pairs->reference = *there;
      pairs->ours = *here;
      pairs->shape = there->shape;
    }
  }
  if (!pairs.has_value() || pairs->shape.elements() == 0) {
    return std::nullopt;
  }
  pairs->rows = pairs->shape.rank() == 0 ? 1 : pairs->shape[0];
  pairs->kept = pairs->numbers.empty() ? pairs->rows : static_cast<int64_t>(pairs->numbers.size());
  pairs->width = pairs->shape.elements() / pairs->rows;
  return pairs;
}

double measure_values(const RowPairs& pairs, int64_t i, double reference_rms, RowMeasure measure,
                      Histogram& histogram) {
  static const BinFinder finder;
  if (pairs.has_equal_bytes(i)) {
    histogram.equal += pairs.width;
    return 0;
  }
  double difference = 0, size = 0;
  const int64_t broken_before = histogram.broken;
  for_row(pairs, i, [&](const double* r, const double* o, int64_t count) {
    for (int64_t k = 0; k < count; ++k) {
      const bool is_finite = std::isfinite(r[k]) && std::isfinite(o[k]);
      size += is_finite ? r[k] * r[k] : 0;
      if (is_equal_element(r[k], o[k])) {
        ++histogram.equal;
      } else if (!is_finite) {
        ++histogram.broken;
      } else {
        const double d = std::fabs(o[k] - r[k]);
        difference += d * d;
        ++histogram.counts[finder.bin(reference_rms > 0 ? d / reference_rms : kInfinity)];
      }
    }
  });
  if (histogram.broken > broken_before) {
    return kInfinity;
  }
  return measure == RowMeasure::levels ? std::sqrt(difference / static_cast<double>(pairs.width))
                                       : row_rms(difference, size, pairs.width, reference_rms);
}

// Integers of one type are compared as bytes, for a double does not hold all of them.
double measure_integers(const RowPairs& pairs, int64_t i) {
  if (pairs.has_equal_bytes(i)) {
    return 0;
  }
  int64_t changed = 0;
  if (pairs.reference.dtype == pairs.ours.dtype && is_integer(pairs.ours.dtype)) {
    const int64_t size = dtype_bytes(pairs.ours.dtype);
    const std::byte* r = pairs.reference.data + pairs.reference_begin(i) * size;
    const std::byte* o = pairs.ours.data + pairs.ours_begin(i) * size;
    for (int64_t k = 0; k < pairs.width; ++k, r += size, o += size) {
      changed += std::memcmp(r, o, static_cast<size_t>(size)) != 0 ? 1 : 0;
    }
  } else {
    for_row(pairs, i, [&](const double* r, const double* o, int64_t count) {
      for (int64_t k = 0; k < count; ++k) {
        changed += is_equal_element(r[k], o[k]) ? 0 : 1;
      }
    });
  }
  return static_cast<double>(changed) / static_cast<double>(pairs.width);
}

double measure_picks(const RowPairs& pairs, int64_t i, bool is_mask) {
  if (pairs.has_equal_bytes(i)) {
    return 0;
  }
  const std::vector<double> there =
      picks_of(pairs.reference, pairs.reference_begin(i), pairs.width, is_mask);
  const std::vector<double> here = picks_of(pairs.ours, pairs.ours_begin(i), pairs.width, is_mask);
  std::vector<double> common;
  std::set_intersection(there.begin(), there.end(), here.begin(), here.end(),
                        std::back_inserter(common));
  const size_t most = std::max(there.size(), here.size());
  return most == 0 ? 0 : static_cast<double>(most - common.size()) / static_cast<double>(most);
}

}  // namespace tessera::trace
