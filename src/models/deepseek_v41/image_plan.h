// From a picture to the tower's input: canvas size, place of the content, patch and token grids,
// patch rows. DeepSeek-V4.1 specification sections 2.2 to 2.5 and, for policies with
// PlanRule::repeated, 2.7; reference implementation: inference/image_processor.py, plan_image_grid
// and the padding after it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "image/image.h"
#include "image/policy.h"
#include "tensor/tensor.h"

namespace tessera::deepseek_v41 {

// Keys of config.json's vision_config; the defaults are the released model's.
struct ImageLimits {
  int64_t patch = 14;              // side of a patch, pixels
  int64_t downsample = 3;          // patches per token and side
  int64_t max_tokens = 1024;       // of a whole span, delimiters included
  int64_t min_pixels = 544 * 544;  // smaller pictures are enlarged to about this area
  std::optional<double> max_wh_ratio =
      std::nullopt;  // width : height beyond which a picture is squeezed
};

struct Grid {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t count() const { return rows * columns; }
  friend bool operator==(const Grid&, const Grid&) = default;
};

// The grey canvas a picture is fitted into.
struct CanvasPlan {
  image::Size size;         // multiples of the patch side
  Grid patches;             // of the vision tower
  Grid tokens;              // after the aligner's downsampling
  int64_t span_tokens = 0;  // START + rows * (columns + NEW_LINE) + END
};

// How a picture is to be prepared: by whose rules, and how much of it the request wants.
struct PrepareOptions {
  image::Policy policy = image::reference_policy();
  bool is_low_detail = false;  // `detail: low`; counts with PlanRule::repeated only
};

struct ImagePlan {
  image::Size source;
  image::Size shrunk;  // by `detail: low`, before anything else; else the source
  CanvasPlan canvas;
  image::Box content;  // the resized picture inside the canvas
};

struct PreparedImage {
  ImagePlan plan;
  image::Image canvas;  // [canvas height, canvas width, 3], padding (127,127,127)
  Tensor patches;       // bf16 [patches.count(), 3 * patch * patch]
};

// Throws Error{bad_file} naming the first value no model can have; `where` is what the limits were
// read from.
void validate(const ImageLimits& limits, std::string_view where);

// Pure functions of size and valid limits, in IEEE double and in the reference's order of
// operations. Throw Error{bad_request} for a size outside 1 to image::kMaxSide, when the limits
// leave no grid and, plan_image() with PlanRule::once only, when a side of the content rounds to 0
// pixels (extreme aspect ratios: the model would see nothing but grey). plan_canvas() is one round
// of PlanRule::repeated.
CanvasPlan plan_canvas(image::Size source, const ImageLimits& limits);
ImagePlan plan_image(image::Size source, const ImageLimits& limits,
                     const PrepareOptions& options = {});

// Plans, shrinks for `detail: low`, resizes with the policy's resampler, pads and cuts into
// patches. The recipe's last step, a lossy WebP file, is left out.
PreparedImage prepare_image(const image::Image& source, const ImageLimits& limits,
                            const PrepareOptions& options = {});

}  // namespace tessera::deepseek_v41
