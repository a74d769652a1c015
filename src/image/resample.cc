#include "image/resample.h"

#include <optional>

#include "base/check.h"
#include "image/resample_opencv.h"
#include "image/resample_passes.h"
#include "image/resample_taps.h"

namespace tessera::image {
namespace {

template <typename MakeTaps>
Image resize_with(const Image& source, Size size, PassOrder order, MakeTaps make_taps) {
  TESSERA_CHECK(source.width() >= 1);
  check_size(size);
  const int64_t width_loss = source.width() - size.width;
  const int64_t height_loss = source.height() - size.height;
  if (width_loss == 0 && height_loss == 0) {
    return source.copy();
  }
  std::optional<ResampleTaps> across;
  std::optional<ResampleTaps> down;
  if (width_loss != 0) {
    across = make_taps(source.width(), size.width);
  }
  if (height_loss != 0) {
    down = make_taps(source.height(), size.height);
  }
  return run_passes(source,
                    {.across = across ? &*across : nullptr,
                     .down = down ? &*down : nullptr,
                     .is_down_first = order == PassOrder::pillow13 && height_loss > 0 &&
                                      height_loss > 2 * width_loss},
                    resample_kernels(active_isa()));
}

}  // namespace

Image resize(const Image& source, Size size, Filter filter, PassOrder order) {
  return resize_with(source, size, order, [filter](int64_t input, int64_t output) {
    return resample_taps(input, output, filter);
  });
}

Image resample(const Image& source, Size size, Resampler resampler) {
  switch (resampler) {
    case Resampler::pillow13:
      return resize(source, size, Filter::bicubic, PassOrder::pillow13);
    case Resampler::pillow12:
      return resize(source, size, Filter::bicubic, PassOrder::pillow12);
    case Resampler::torch_uint8:  // horizontal first, always
      return resize_with(source, size, PassOrder::pillow12, torch_taps);
    case Resampler::opencv_cubic:
      return resize_opencv_cubic(source, size);
  }
  TESSERA_UNREACHABLE();
}

}  // namespace tessera::image
