// How a picture is prepared where the file leaves a choice: transparency, 16-bit samples, rotation,
// the resampler. A policy is data; whoever names one gets the same pixels on every path. Always the
// first frame only. Sources: DeepSeek-V4.1 specification sections 2.1 to 2.7, Qwen3-VL
// specification sections 2.1 to 2.3; docs/image-intake.md has the table.
#pragma once

#include <span>
#include <string_view>

#include "image/image.h"
#include "image/resample.h"

namespace tessera::image {

enum class AlphaRule {
  drop,   // the colours under transparent pixels show, as in Pillow's convert("RGB")
  blend,  // over Policy::background
};

enum class SixteenBitRule {
  pillow,  // grey is clipped to 255, other samples keep their high byte
  scale,   // round(v / 257)
};

enum class CmykRule {
  pillow,  // light - muldiv255(ink, light)
  opencv,  // light - (ink * light >> 8)
};

enum class FormatRule {
  all,
  web,  // JPEG (not arithmetic), PNG, GIF, WebP
};

// Where readers of GIF disagree: what the first frame leaves uncovered, frames beyond the screen,
// indices beyond the palette, missing palettes, several graphic controls (docs/image-intake.md).
enum class GifRule { pillow, recipe };

enum class PlanRule {
  once,
  repeated,  // on its own result until nothing changes; no side above WebP's 16383
};

struct Policy {
  std::string_view name;
  std::string_view summary;  // one line
  AlphaRule alpha = AlphaRule::drop;
  Rgb background{255, 255, 255};   // of AlphaRule::blend
  bool blends_colour_key = false;  // also the one transparent colour of an RGB PNG
  GifRule gif = GifRule::pillow;
  // Of an animated PNG whose default image is not part of the animation, its first frame.
  bool skips_default_image = false;
  SixteenBitRule sixteen_bit = SixteenBitRule::pillow;
  CmykRule cmyk = CmykRule::pillow;
  FormatRule formats = FormatRule::all;
  bool applies_exif = false;  // rotates by EXIF; TIFF's own Orientation always counts
  Resampler resampler = Resampler::pillow13;
  PlanRule plan = PlanRule::once;
};

// reference, recipe, hf-fast, hf-slow.
std::span<const Policy> policies();

const Policy& reference_policy();

// Throws Error{bad_request} that lists the names.
const Policy& find_policy(std::string_view name);

}  // namespace tessera::image
