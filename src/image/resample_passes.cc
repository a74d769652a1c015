#include "image/resample_passes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/check.h"

namespace tessera::image {
namespace {

using Rows = std::array<const uint8_t*, kRowGroup>;
using OutRows = std::array<uint8_t*, kRowGroup>;

void run_across(const ResampleKernels& kernels, const ResampleTaps& taps, const Rows& from,
                const OutRows& to) {
  kernels.across({.from = from.data(),
                  .to = to.data(),
                  .first = taps.first.data(),
                  .offset = taps.offset.data(),
                  .weight = taps.weight.data(),
                  .outputs = taps.outputs(),
                  .bits = taps.bits});
}

int64_t count_of(const ResampleTaps& taps, size_t output) {
  return taps.offset[output + 1] - taps.offset[output];
}

// Output row `y`; `from` is the first row of its window.
void run_down(const ResampleKernels& kernels, const ResampleTaps& taps, size_t y,
              const uint8_t* from, int64_t stride, int64_t bytes, uint8_t* to) {
  kernels.down({.from = from,
                .stride = stride,
                .weight = taps.weight.data() + taps.offset[y],
                .count = count_of(taps, y),
                .to = to,
                .bytes = bytes,
                .bits = taps.bits});
}

// Rows of a picture in groups, with kRowSlack readable bytes behind each: the last ones are copied.
class GroupedRows {
 public:
  explicit GroupedRows(const Image& source)
      : source_(source),
        end_(source.pixels() + source.row_bytes() * source.height()),
        slot_bytes_(source.row_bytes() + kRowSlack) {
    const int64_t near_end =
        std::min((kRowSlack + source.row_bytes() - 1) / source.row_bytes(), kRowGroup);
    copies_.resize(static_cast<size_t>(near_end * slot_bytes_));
  }

  // Rows [y, y + count), 1 to kRowGroup of them, the last one repeated. Valid until the next call.
  Rows group(int64_t y, int64_t count) {
    Rows rows;
    uint8_t* slot = copies_.data();
    for (int64_t r = 0; r < count; ++r) {
      const uint8_t* row = source_.row(y + r);
      if (end_ - row < slot_bytes_) {
        std::memcpy(slot, row, static_cast<size_t>(source_.row_bytes()));
        row = slot;
        slot += slot_bytes_;
      }
      rows[static_cast<size_t>(r)] = row;
    }
    std::fill(rows.begin() + count, rows.end(), rows[static_cast<size_t>(count - 1)]);
    return rows;
  }

 private:
  const Image& source_;
  const uint8_t* end_;
  int64_t slot_bytes_;
  std::vector<uint8_t> copies_;
};

// `count` rows that lie `stride` bytes apart, the last one repeated.
template <typename Byte>
std::array<Byte*, kRowGroup> spaced_rows(Byte* first, int64_t stride, int64_t count) {
  std::array<Byte*, kRowGroup> rows;
  for (int64_t r = 0; r < kRowGroup; ++r) {
    rows[static_cast<size_t>(r)] = first + std::min(r, count - 1) * stride;
  }
  return rows;
}

Image across_only(const Image& source, const ResampleTaps& taps, const ResampleKernels& kernels) {
  Image out({taps.outputs(), source.height()});
  GroupedRows rows(source);
  for (int64_t y = 0; y < source.height(); y += kRowGroup) {
    const int64_t count = std::min(kRowGroup, source.height() - y);
    run_across(kernels, taps, rows.group(y, count),
               spaced_rows(out.row(y), out.row_bytes(), count));
  }
  return out;
}

Image down_only(const Image& source, const ResampleTaps& taps, const ResampleKernels& kernels) {
  Image out({source.width(), taps.outputs()});
  for (int64_t y = 0; y < out.height(); ++y) {
    const size_t output = static_cast<size_t>(y);
    run_down(kernels, taps, output, source.row(taps.first[output]), source.row_bytes(),
             source.row_bytes(), out.row(y));
  }
  return out;
}

Image down_then_across(const Image& source, const ResampleTaps& down, const ResampleTaps& across,
                       const ResampleKernels& kernels) {
  Image out({across.outputs(), down.outputs()});
  const int64_t stride = source.row_bytes() + kRowSlack;
  std::vector<uint8_t> between(static_cast<size_t>(std::min(kRowGroup, out.height()) * stride));
  for (int64_t y = 0; y < out.height(); y += kRowGroup) {
    const int64_t count = std::min(kRowGroup, out.height() - y);
    for (int64_t r = 0; r < count; ++r) {
      const size_t output = static_cast<size_t>(y + r);
      run_down(kernels, down, output, source.row(down.first[output]), source.row_bytes(),
               source.row_bytes(), between.data() + r * stride);
    }
    run_across(kernels, across, spaced_rows<const uint8_t>(between.data(), stride, count),
               spaced_rows(out.row(y), out.row_bytes(), count));
  }
  return out;
}

// The results of the first pass that the second one still needs, in one piece: when there is no
// room behind them they move to the front.
class Window {
 public:
  Window(int64_t row_bytes, int64_t most_rows, int64_t height)
      : row_bytes_(row_bytes),
        capacity_(std::min(2 * most_rows + kRowGroup, height)),
        rows_(static_cast<size_t>(capacity_ * row_bytes)) {}

  int64_t end() const { return end_; }
  const uint8_t* row(int64_t y) const { return rows_.data() + (y - begin_) * row_bytes_; }

  // Room for rows [end(), end() + count), of which the first is returned. Rows below `needed`
  // vanish.
  uint8_t* extend(int64_t count, int64_t needed) {
    if (end_ - begin_ + count > capacity_) {
      std::memmove(rows_.data(), row(needed), static_cast<size_t>((end_ - needed) * row_bytes_));
      begin_ = needed;
    }
    TESSERA_DCHECK(end_ - begin_ + count <= capacity_);
    uint8_t* first = rows_.data() + (end_ - begin_) * row_bytes_;
    end_ += count;
    return first;
  }

 private:
  int64_t row_bytes_;
  int64_t capacity_;
  std::vector<uint8_t> rows_;
  int64_t begin_ = 0;  // source row in front
  int64_t end_ = 0;
};

Image across_then_down(const Image& source, const ResampleTaps& across, const ResampleTaps& down,
                       const ResampleKernels& kernels) {
  Image out({across.outputs(), down.outputs()});
  int64_t most_rows = 0;
  for (size_t y = 0; y < down.first.size(); ++y) {
    most_rows = std::max(most_rows, count_of(down, y));
  }
  Window window(out.row_bytes(), most_rows, source.height());
  GroupedRows rows(source);
  for (int64_t y = 0; y < out.height(); ++y) {
    const size_t output = static_cast<size_t>(y);
    const int64_t first = down.first[output];
    while (window.end() < first + count_of(down, output)) {
      const int64_t begin = window.end();
      const int64_t count = std::min(kRowGroup, source.height() - begin);
      uint8_t* to = window.extend(count, std::min(first, begin));
      run_across(kernels, across, rows.group(begin, count),
                 spaced_rows(to, out.row_bytes(), count));
    }
    run_down(kernels, down, output, window.row(first), out.row_bytes(), out.row_bytes(),
             out.row(y));
  }
  return out;
}

}  // namespace

const ResampleKernels& resample_kernels(IsaLevel level) {
  switch (level) {
    case IsaLevel::reference:
      return kResampleReference;
    case IsaLevel::avx2:
      return kResampleAvx2;
    case IsaLevel::avx512:
      return kResampleAvx512;
  }
  TESSERA_UNREACHABLE();
}

Image run_passes(const Image& source, const ResamplePasses& passes,
                 const ResampleKernels& kernels) {
  TESSERA_CHECK(passes.across != nullptr || passes.down != nullptr);
  if (passes.down == nullptr) {
    return across_only(source, *passes.across, kernels);
  }
  if (passes.across == nullptr) {
    return down_only(source, *passes.down, kernels);
  }
  return passes.is_down_first ? down_then_across(source, *passes.down, *passes.across, kernels)
                              : across_then_down(source, *passes.across, *passes.down, kernels);
}

}  // namespace tessera::image
