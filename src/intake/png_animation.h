// Animated PNGs whose default image is not part of the animation (PNG specification, third edition,
// section 11.3.4): the animation's first frame as a PNG of its own.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "image/image.h"

namespace tessera::intake {

struct FirstFrame {
  image::Box place;             // on the canvas of the file's header
  std::vector<std::byte> file;  // a PNG of this frame alone; empty: there is none
};

// `bytes` have passed scan_png(). No frame for a file that is not animated, whose default image is
// the first frame, or whose first frame does not lie inside the canvas.
FirstFrame first_frame_behind_default(std::span<const std::byte> bytes);

}  // namespace tessera::intake
