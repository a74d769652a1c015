// A picture as large as a photograph, drawn and compressed, so that no file of that size lies in
// the source.
#pragma once

#include <cstddef>
#include <vector>

#include "image/image.h"

namespace tessera::bench {

// Clouds at five scales, from 512 pixels down to 2, each channel its own: about as hard to compress
// as a photograph of a landscape. The same pixels on every machine.
image::Image draw_clouds(image::Size size);

// Baseline JPEG, 4:2:0, quality 90, as cameras write it.
std::vector<std::byte> encode_jpeg(const image::Image& picture);

}  // namespace tessera::bench
