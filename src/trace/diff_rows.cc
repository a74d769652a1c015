#include "trace/diff_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "trace/convert.h"

namespace tessera::trace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kBlock = 4096;  // elements that are widened at once
constexpr double kLeastRowShare = 0.01;

struct RowSums {
  double difference = 0;  // squares
  double reference = 0;
};

// Sums over a block of a row.
struct BlockSums {
  double difference = 0, reference = 0, ours = 0, product = 0;
  double max_abs = 0;
  int64_t changed = 0, broken = 0;
};

bool is_equal(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

BlockSums sum_block(const double* r, const double* o, int64_t count) {
  BlockSums s;
  for (int64_t i = 0; i < count; ++i) {
    if (!is_equal(r[i], o[i])) {
      ++s.changed;
    }
    if (!std::isfinite(r[i]) || !std::isfinite(o[i])) {
      s.broken += is_equal(r[i], o[i]) ? 0 : 1;
      continue;
    }
    const double d = o[i] - r[i];
    s.difference += d * d;
    s.reference += r[i] * r[i];
    s.ours += o[i] * o[i];
    s.product += r[i] * o[i];
    s.max_abs = std::max(s.max_abs, std::fabs(d));
  }
  return s;
}

// Sums over floats, four at a time so that the additions need not wait for each other. They hold
// only if all of them are finite: otherwise a value is not.
BlockSums sum_floats(const float* r, const float* o, int64_t count) {
  constexpr int64_t kLanes = 4;
  double difference[kLanes] = {}, reference[kLanes] = {}, ours[kLanes] = {}, product[kLanes] = {},
         most[kLanes] = {};
  int64_t changed = 0, i = 0;
  const auto add = [&](int64_t at, int64_t lane) {
    const double a = r[at], b = o[at], d = b - a;
    difference[lane] += d * d;
    reference[lane] += a * a;
    ours[lane] += b * b;
    product[lane] += a * b;
    most[lane] = std::max(most[lane], std::fabs(d));
    changed += r[at] != o[at] ? 1 : 0;
  };
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      add(i + lane, lane);
    }
  }
  for (; i < count; ++i) {
    add(i, 0);
  }
  const auto sum = [](const double* x) { return (x[0] + x[1]) + (x[2] + x[3]); };
  BlockSums s;
  s.difference = sum(difference);
  s.reference = sum(reference);
  s.ours = sum(ours);
  s.product = sum(product);
  s.max_abs = std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
  s.changed = changed;
  return s;
}

// The same where both sides are equal: the way of almost all bytes of two good traces.
BlockSums sum_equal_floats(const float* x, int64_t count) {
  double sums[4] = {};
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (int64_t k = 0; k < 4; ++k) {
      sums[k] += static_cast<double>(x[i + k]) * static_cast<double>(x[i + k]);
    }
  }
  for (; i < count; ++i) {
    sums[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  BlockSums s;
  s.reference = s.ours = s.product = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return s;
}

bool has_equal_bytes(const TensorView& a, const TensorView& b, int64_t begin, int64_t count) {
  const int64_t size = dtype_bytes(a.dtype);
  return a.dtype == b.dtype && std::memcmp(a.data + begin * size, b.data + begin * size,
                                           static_cast<size_t>(count * size)) == 0;
}

BlockSums compare_block(const TensorView& reference, const TensorView& ours, int64_t begin,
                        int64_t count) {
  const bool is_same = has_equal_bytes(reference, ours, begin, count);
  if (reference.dtype == DType::f32 && ours.dtype == DType::f32) {
    float x[kBlock], y[kBlock];
    std::memcpy(x, reference.data + begin * 4, static_cast<size_t>(count) * 4);
    std::memcpy(y, ours.data + begin * 4, static_cast<size_t>(count) * 4);
    const BlockSums s = is_same ? sum_equal_floats(x, count) : sum_floats(x, y, count);
    if (std::isfinite(s.difference + s.reference + s.ours)) {
      return s;
    }
  }
  double r[kBlock], o[kBlock];
  widen(reference, begin, std::span(r, static_cast<size_t>(count)));
  widen(ours, begin, std::span(o, static_cast<size_t>(count)));
  BlockSums s = sum_block(r, o, count);
  // Integers beyond 2^53 that differ are equal as doubles.
  if (!is_same && s.changed == 0 && is_integer(reference.dtype) && is_integer(ours.dtype)) {
    int64_t a[kBlock], b[kBlock];
    widen(reference, begin, std::span(a, static_cast<size_t>(count)));
    widen(ours, begin, std::span(b, static_cast<size_t>(count)));
    for (int64_t i = 0; i < count; ++i) {
      s.changed += a[i] != b[i] ? 1 : 0;
    }
  }
  return s;
}

// Steps of the number grid at the larger of the two, which is finite and not 0: |o - r| divided by
// the power of two of that size, 2^(exponent - mantissa_bits).
double grid_steps(double r, double o, int mantissa_bits) {
  constexpr int kBias = 1023, kFraction = 52;
  const double size = std::max(std::fabs(r), std::fabs(o));
  const int exponent = static_cast<int>(std::bit_cast<uint64_t>(size) >> kFraction) - kBias;
  const int inverse = mantissa_bits - exponent;
  if (exponent == -kBias || inverse <= -kBias || inverse > kBias) {  // beyond what a float holds
    return std::fabs(o - r) / std::ldexp(1.0, std::ilogb(size) - mantissa_bits);
  }
  return std::fabs(o - r) *
         std::bit_cast<double>(static_cast<uint64_t>(inverse + kBias) << kFraction);
}

// What needs the size of the whole tensor: second reading, where something changed.
struct SecondPass {
  const RowView& reference;
  const RowView& ours;
  int mantissa_bits;
  const Tolerance& tolerance;
  DiffMetrics& metrics;

  void block(int64_t begin, int64_t count) const {
    if (has_equal_bytes(reference.view, ours.view, begin, count)) {
      return;
    }
    double r[kBlock], o[kBlock];
    widen(reference.view, begin, std::span(r, static_cast<size_t>(count)));
    widen(ours.view, begin, std::span(o, static_cast<size_t>(count)));
    for (int64_t i = 0; i < count; ++i) {
      if (is_equal(r[i], o[i])) {
        continue;
      }
      if (!std::isfinite(r[i]) || !std::isfinite(o[i])) {
        ++metrics.outside;
        continue;
      }
      const double d = std::fabs(o[i] - r[i]);
      const double size = std::max(std::fabs(r[i]), metrics.reference_rms);
      metrics.outside += d > tolerance.row * size ? 1 : 0;
      metrics.max_rel = std::max(metrics.max_rel, size > 0 ? d / size : kInfinity);
      metrics.ulp = std::max(metrics.ulp, grid_steps(r[i], o[i], mantissa_bits));
    }
  }
};

void for_blocks(int64_t begin, int64_t end, const auto& body) {
  for (int64_t at = begin; at < end; at += kBlock) {
    body(at, std::min(kBlock, end - at));
  }
}

// The element of a row that is furthest off; a broken one before any other.
DiffElement worst_of_row(const RowView& reference, const RowView& ours, int64_t row) {
  const int64_t width = reference.width();
  DiffElement worst;
  double distance = -1;
  for_blocks(row * width, (row + 1) * width, [&](int64_t begin, int64_t count) {
    double r[kBlock], o[kBlock];
    widen(reference.view, begin, std::span(r, static_cast<size_t>(count)));
    widen(ours.view, begin, std::span(o, static_cast<size_t>(count)));
    for (int64_t i = 0; i < count; ++i) {
      double d = std::fabs(o[i] - r[i]);
      if (is_equal(r[i], o[i])) {
        d = 0;
      } else if (!std::isfinite(d)) {
        d = kInfinity;
      }
      if (d > distance) {
        distance = d;
        worst = {reference.number(row), begin + i - row * width, r[i], o[i]};
      }
    }
  });
  return worst;
}

}  // namespace

double row_rms(double difference_squares, double reference_squares, int64_t width,
               double reference_rms) {
  if (difference_squares == 0) {
    return 0;
  }
  const double least = kLeastRowShare * reference_rms * reference_rms * static_cast<double>(width);
  const double size = std::max(reference_squares, least);
  return size > 0 ? std::sqrt(difference_squares / size) : kInfinity;
}

RowComparison compare_rows(const RowView& reference, const RowView& ours, int mantissa_bits,
                           const Tolerance& tolerance, bool is_exact) {
  TESSERA_CHECK(reference.view.elements() == ours.view.elements());
  const int64_t rows = reference.rows();
  const int64_t width = reference.width();
  RowComparison out;
  DiffMetrics& m = out.metrics;
  m.elements = reference.view.elements();
  std::vector<RowSums> sums(static_cast<size_t>(rows));
  double difference = 0, size = 0, ours_size = 0, product = 0;
  int64_t first_bad = -1;
  for (int64_t row = 0; row < rows; ++row) {
    RowSums& own = sums[static_cast<size_t>(row)];
    const int64_t changed = m.changed, broken = m.broken;
    for_blocks(row * width, (row + 1) * width, [&](int64_t begin, int64_t count) {
      const BlockSums s = compare_block(reference.view, ours.view, begin, count);
      own.difference += s.difference;
      own.reference += s.reference;
      ours_size += s.ours;
      product += s.product;
      m.max_abs = std::max(m.max_abs, s.max_abs);
      m.changed += s.changed;
      m.broken += s.broken;
    });
    difference += own.difference;
    size += own.reference;
    if (first_bad < 0 && (m.broken > broken || (is_exact && m.changed > changed))) {
      first_bad = row;
    }
  }
  if (m.changed == 0) {
    m.reference_rms = m.elements == 0 ? 0 : std::sqrt(size / static_cast<double>(m.elements));
    return out;
  }
  m.reference_rms = std::sqrt(size / static_cast<double>(m.elements));
  m.rms = m.broken > 0     ? kInfinity
          : size > 0       ? std::sqrt(difference / size)
          : difference > 0 ? kInfinity
                           : 0;
  m.cosine = size > 0 && ours_size > 0 ? product / std::sqrt(size * ours_size) : 0;
  if (m.broken > 0) {
    m.max_abs = kInfinity;
  }
  for (int64_t row = 0; row < rows; ++row) {
    const RowSums& own = sums[static_cast<size_t>(row)];
    const double rms = row_rms(own.difference, own.reference, width, m.reference_rms);
    if (m.worst_row < 0 || rms > m.worst_row_rms) {
      m.worst_row = reference.number(row);
      m.worst_row_rms = rms;
    }
    if (!is_exact && rms > tolerance.row && (first_bad < 0 || row < first_bad)) {
      first_bad = row;
    }
  }
  out.is_over = first_bad >= 0 || (!is_exact && m.rms > tolerance.rms);
  int64_t shown = first_bad;
  for (int64_t row = 0; shown < 0 && row < rows; ++row) {
    shown = reference.number(row) == m.worst_row ? row : -1;
  }
  out.first = worst_of_row(reference, ours, shown);
  const SecondPass second{reference, ours, mantissa_bits, tolerance, m};
  for_blocks(0, m.elements, [&](int64_t begin, int64_t count) { second.block(begin, count); });
  return out;
}

}  // namespace tessera::trace
