// A prepared picture drawn for people: the canvas as the model gets it, enlarged if small, with its
// patches (thin lines), the cells that become one token each (strong lines, numbered), and the
// padding hatched.
#pragma once

#include "image/image.h"
#include "models/deepseek_v41/image_plan.h"

namespace tessera {

image::Image draw_plan(const deepseek_v41::PreparedImage& picture,
                       const deepseek_v41::ImageLimits& limits);

}  // namespace tessera
