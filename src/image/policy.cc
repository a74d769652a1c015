#include "image/policy.h"

#include <array>
#include <string>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera::image {
namespace {

constexpr std::array<Policy, 4> kPolicies = {{
    {.name = "reference", .summary = "the model repository's own code (Pillow)"},
    {.name = "recipe",
     .summary = "DeepSeek's production front end (OpenCV), without its last, lossy WebP step",
     .alpha = AlphaRule::blend,
     .background = {0xfd, 0xfd, 0xfd},
     .blends_colour_key = true,
     .gif = GifRule::recipe,
     .skips_default_image = true,
     .sixteen_bit = SixteenBitRule::scale,
     .cmyk = CmykRule::opencv,
     .formats = FormatRule::web,
     .resampler = Resampler::opencv_cubic,
     .plan = PlanRule::repeated},
    {.name = "hf-fast",
     .summary = "Hugging Face's fast processor on a CPU (torchvision)",
     .alpha = AlphaRule::blend,
     .sixteen_bit = SixteenBitRule::scale,
     .applies_exif = true,
     .resampler = Resampler::torch_uint8},
    {.name = "hf-slow",
     .summary = "Hugging Face's slow processor (Pillow)",
     .applies_exif = true,
     .resampler = Resampler::pillow13},
}};

}  // namespace

std::span<const Policy> policies() { return kPolicies; }

const Policy& reference_policy() { return kPolicies[0]; }

const Policy& find_policy(std::string_view name) {
  std::string names;
  for (const Policy& policy : kPolicies) {
    if (policy.name == name) {
      return policy;
    }
    names += str_cat(names.empty() ? "" : ", ", policy.name);
  }
  throw Error(ErrorCode::bad_request,
              str_cat("picture policy '", name, "' is not known; expected one of ", names));
}

}  // namespace tessera::image
