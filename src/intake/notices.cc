#include "intake/notices.h"

#include "base/str_cat.h"

namespace tessera::intake {

std::vector<std::string> notices(const DecodedImage& decoded, std::string_view name,
                                 const image::Policy& policy) {
  std::vector<std::string> lines;
  if (decoded.has_transparency) {
    lines.push_back(
        policy.alpha == image::AlphaRule::drop
            ? str_cat(name, ": has transparent parts; policy ", policy.name,
                      " shows the colours hidden under them; flatten the picture, or use a policy "
                      "that blends (recipe)")
            : str_cat(name, ": has transparent parts; policy ", policy.name,
                      " puts them over a light background; flatten the picture for another one"));
  }
  if (decoded.has_sixteen_bits) {
    const bool is_clipped =
        policy.sixteen_bit == image::SixteenBitRule::pillow && decoded.mode.starts_with("I");
    if (is_clipped) {
      lines.push_back(str_cat(name, ": has 16 bits of grey; policy ", policy.name,
                              " clips them to 8, so all but the darkest parts are white; convert "
                              "the picture to 8 bits, or use a policy that scales (recipe)"));
    }
  }
  if (decoded.exif_orientation != 1 && !policy.applies_exif) {
    lines.push_back(str_cat(name, ": is stored turned (EXIF orientation ", decoded.exif_orientation,
                            "); policy ", policy.name,
                            " shows it as stored; use --exif-rotate to turn it upright"));
  }
  return lines;
}

}  // namespace tessera::intake
