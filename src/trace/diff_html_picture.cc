// Pictures in the page: see thumbnail() in diff_html_panels.h.
#include <algorithm>

#include "trace/convert.h"
#include "trace/diff_html_panels.h"

namespace tessera::trace {
namespace {

int64_t ceil_div(int64_t whole, int64_t step) { return (whole + step - 1) / step; }

}  // namespace

std::optional<Thumbnail> thumbnail(const TraceFile& trace, std::string_view tap, int64_t side) {
  const std::optional<TensorView> view = trace.find(tap);
  if (!view.has_value() || view->shape.rank() != 3 || view->shape[2] != 3 ||
      view->elements() == 0) {
    return std::nullopt;
  }
  Thumbnail out;
  out.full_height = view->shape[0];
  out.full_width = view->shape[1];
  const int64_t step = ceil_div(std::max(out.full_height, out.full_width), side);
  out.height = ceil_div(out.full_height, step);
  out.width = ceil_div(out.full_width, step);
  std::vector<double> sums(static_cast<size_t>(out.width * 3)),
      line(static_cast<size_t>(out.full_width * 3));
  for (int64_t y = 0; y < out.full_height; ++y) {
    widen(*view, y * out.full_width * 3, line);
    for (size_t k = 0; k < line.size(); ++k) {
      const size_t x = k / 3 / static_cast<size_t>(step);
      sums[x * 3 + k % 3] += line[k] >= 0 && line[k] <= 255 ? line[k] : 0;
    }
    if ((y + 1) % step != 0 && y + 1 < out.full_height) {
      continue;
    }
    const int64_t lines = y % step + 1;
    for (size_t k = 0; k < sums.size(); ++k) {
      const int64_t left = static_cast<int64_t>(k / 3) * step;
      const int64_t count = lines * std::min(step, out.full_width - left);
      out.pixels.push_back(static_cast<uint8_t>(sums[k] / static_cast<double>(count) + 0.5));
    }
    std::fill(sums.begin(), sums.end(), 0.0);
  }
  return out;
}

}  // namespace tessera::trace
