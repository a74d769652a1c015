#include "intake/tiff_layout.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/str_cat.h"

namespace tessera::intake {
namespace {

using Extra = std::vector<uint32_t>;

constexpr uint32_t kUnspecified = 0;
constexpr uint32_t kAssociated = 1;
constexpr uint32_t kUnassociated = 2;
constexpr uint32_t kCorelAlpha = 999;

TiffHeader without_ignored(TiffHeader header) {
  if (header.ignored_planes() > 0) {
    header.samples -= header.ignored_planes();
    header.extra.clear();
  }
  return header;
}

bool is_packable(int64_t bits) { return bits == 1 || bits == 2 || bits == 4 || bits == 8; }

// The meaning of `colours` colours and then `extra` samples; nothing but alpha may be special.
std::optional<uint32_t> first_extra(const TiffHeader& header, int64_t colours) {
  const auto surplus = header.samples - colours;
  if (surplus != static_cast<int64_t>(header.extra.size()) || surplus < 1 ||
      std::any_of(header.extra.begin() + 1, header.extra.end(),
                  [](uint32_t kind) { return kind != kUnspecified; })) {
    return std::nullopt;
  }
  return header.extra.front();
}

bool has_only(const TiffHeader& header, int64_t colours) {
  return header.samples == colours && header.extra.empty();
}

std::optional<TiffLayout> choose_integer_grey(const TiffHeader& header) {
  const bool is_black_zero = header.colour == TiffColour::black_is_zero;
  const bool is_plain = is_black_zero && !header.is_lsb_first;
  if (is_packable(header.bits)) {
    return TiffLayout{.pillow_mode = header.bits == 1 ? "1" : "L", .is_inverted = !is_black_zero};
  }
  if (header.bits == 12 && is_plain && !header.is_big_endian) {
    return TiffLayout{
        .pillow_mode = "I;16", .format = RowFormat::grey16, .pixels = TiffPixels::grey12};
  }
  // Pillow does not invert 16 bits.
  if (header.bits == 16 &&
      (is_plain || (!header.is_big_endian && is_black_zero != !header.is_lsb_first))) {
    return TiffLayout{.pillow_mode = header.is_big_endian ? "I;16B" : "I;16",
                      .format = RowFormat::grey16,
                      .pixels = TiffPixels::words};
  }
  if (header.bits == 32 && is_plain && !header.is_big_endian) {
    return TiffLayout{.pillow_mode = "I", .pixels = TiffPixels::uint32};
  }
  return std::nullopt;
}

std::optional<TiffLayout> choose_grey(const TiffHeader& header) {
  const bool is_plain = header.colour == TiffColour::black_is_zero && !header.is_lsb_first;
  if (header.sample == TiffSample::unsigned_integer && has_only(header, 1)) {
    return choose_integer_grey(header);
  }
  if (header.sample == TiffSample::real && has_only(header, 1) && header.bits == 32 &&
      !header.is_lsb_first) {
    return TiffLayout{.pillow_mode = "F", .pixels = TiffPixels::real32};
  }
  if (header.sample == TiffSample::signed_integer && has_only(header, 1) && is_plain) {
    switch (header.bits) {
      case 8:
        return TiffLayout{.pillow_mode = "L"};
      case 16:
        return TiffLayout{.pillow_mode = "I", .pixels = TiffPixels::int16};
      case 32:
        return TiffLayout{.pillow_mode = "I", .pixels = TiffPixels::int32};
      default:
        return std::nullopt;
    }
  }
  if (header.sample != TiffSample::unsigned_integer || header.samples != 2 || header.bits != 8 ||
      !is_plain) {
    return std::nullopt;
  }
  const std::optional<uint32_t> extra = first_extra(header, 1);
  if (extra == kUnspecified) {
    return TiffLayout{.pillow_mode = "L", .pixels = TiffPixels::bytes};
  }
  if (extra == kUnassociated) {
    return TiffLayout{.pillow_mode = "LA",
                      .format = RowFormat::grey_alpha8,
                      .pixels = TiffPixels::bytes,
                      .used_samples = 2};
  }
  return std::nullopt;
}

std::optional<TiffLayout> choose_rgb(const TiffHeader& header) {
  const bool is_wide = header.bits == 16;
  if (header.sample != TiffSample::unsigned_integer || (header.bits != 8 && !is_wide) ||
      (header.is_lsb_first && (is_wide || !has_only(header, 3)))) {
    return std::nullopt;
  }
  TiffLayout rgb{.pillow_mode = "RGB",
                 .format = is_wide ? RowFormat::rgb16 : RowFormat::rgb8,
                 .pixels = is_wide ? TiffPixels::words : TiffPixels::bytes,
                 .used_samples = 3};
  if (has_only(header, 3)) {
    return rgb;
  }
  TiffLayout rgba = rgb;
  rgba.pillow_mode = "RGBA";
  rgba.format = is_wide ? RowFormat::rgba16 : RowFormat::rgba8;
  rgba.used_samples = 4;
  if (has_only(header, 4)) {  // ExtraSamples forgotten; libtiff then supposes an unspecified one
    rgba.is_premultiplied = header.is_planar && header.compression != TiffCompression::none;
  } else {
    const std::optional<uint32_t> extra = first_extra(header, 3);
    if (!extra.has_value() || (is_wide && header.samples > 4)) {
      return std::nullopt;
    }
    if (*extra == kUnspecified) {
      return rgb;
    }
    const bool is_corel = *extra == kCorelAlpha && header.samples == 4 && !is_wide;
    if (*extra != kAssociated && *extra != kUnassociated && !is_corel) {
      return std::nullopt;
    }
    rgba.is_premultiplied = *extra == kAssociated;
  }
  if (rgba.is_premultiplied) {
    rgba.format = RowFormat::rgba8;  // divided by alpha after the high bytes are taken
  }
  return rgba;
}

std::optional<TiffLayout> choose_palette(const TiffHeader& header) {
  if (header.sample != TiffSample::unsigned_integer) {
    return std::nullopt;
  }
  if (has_only(header, 1) && is_packable(header.bits)) {
    return TiffLayout{.pillow_mode = "P", .format = RowFormat::indexed8};
  }
  if (header.bits != 8 || header.is_lsb_first || header.samples != 2) {
    return std::nullopt;
  }
  const std::optional<uint32_t> extra = first_extra(header, 1);
  if (extra == kUnspecified) {
    return TiffLayout{
        .pillow_mode = "P", .format = RowFormat::indexed8, .pixels = TiffPixels::bytes};
  }
  if (extra == kUnassociated) {
    return TiffLayout{.pillow_mode = "PA",
                      .format = RowFormat::rgba8,
                      .pixels = TiffPixels::bytes,
                      .used_samples = 2,
                      .has_alpha_index = true};
  }
  return std::nullopt;
}

std::optional<TiffLayout> choose_cmyk(const TiffHeader& header) {
  const bool has_padding = header.bits == 8 && first_extra(header, 4) == kUnspecified;
  if (header.sample != TiffSample::unsigned_integer || header.is_lsb_first ||
      (header.bits != 8 && header.bits != 16) || (!has_only(header, 4) && !has_padding)) {
    return std::nullopt;
  }
  // Of 16 bits the high byte, whatever the policy: inks have no other rule.
  return TiffLayout{.pillow_mode = "CMYK",
                    .format = RowFormat::cmyk8,
                    .pixels = header.bits == 16 ? TiffPixels::words : TiffPixels::bytes,
                    .used_samples = 4};
}

std::optional<TiffLayout> choose_ycbcr(const TiffHeader& header) {
  if (header.sample != TiffSample::unsigned_integer || header.bits != 8 || header.is_lsb_first ||
      header.is_planar) {
    return std::nullopt;
  }
  TiffLayout layout{.pillow_mode = "RGB",
                    .format = RowFormat::rgb8,
                    .pixels = TiffPixels::bytes,
                    .used_samples = 3};
  if (header.compression == TiffCompression::jpeg && has_only(header, 3)) {
    return layout;
  }
  if (header.compression != TiffCompression::none) {
    return std::nullopt;
  }
  if (has_only(header, 1)) {
    return TiffLayout{.pillow_mode = "L"};
  }
  if (!has_only(header, 3) || header.is_subsampled) {
    return std::nullopt;
  }
  layout.pillow_mode = "YCbCr";
  layout.is_ycbcr = true;
  return layout;
}

std::optional<TiffLayout> choose(const TiffHeader& header) {
  switch (header.colour) {
    case TiffColour::white_is_zero:
    case TiffColour::black_is_zero:
      return choose_grey(header);
    case TiffColour::rgb:
      return choose_rgb(header);
    case TiffColour::palette:
      return choose_palette(header);
    case TiffColour::cmyk:
      return choose_cmyk(header);
    case TiffColour::ycbcr:
      return choose_ycbcr(header);
  }
  return std::nullopt;
}

// Where Pillow 13 knows the mode but reads garbage or gives up, because it takes the first letter
// of its raw mode for a plane, exchanges bytes that libtiff has put in order, or has no reader.
bool is_misread(const TiffHeader& stored, const TiffHeader& header, const TiffLayout& layout) {
  const bool is_signed_or_real = layout.pixels == TiffPixels::int16 ||
                                 layout.pixels == TiffPixels::int32 ||
                                 layout.pixels == TiffPixels::real32;
  if (header.compression != TiffCompression::none) {
    return (header.is_big_endian && is_signed_or_real) ||
           (header.is_planar && header.samples > layout.used_samples);
  }
  if (!header.is_planar) {
    return header.is_lsb_first && layout.pixels == TiffPixels::packed &&
           (layout.format == RowFormat::indexed8 ? header.bits < 8
                                                 : layout.is_inverted && header.bits == 8);
  }
  if (header.samples != stored.samples || header.is_lsb_first) {
    return true;
  }
  switch (layout.pixels) {
    case TiffPixels::packed:
      return layout.is_inverted ||
             (header.bits != 8 && (header.bits != 1 || layout.format == RowFormat::indexed8));
    case TiffPixels::bytes:
      return header.samples < 3 || header.samples > layout.used_samples || layout.is_premultiplied;
    case TiffPixels::int32:
    case TiffPixels::uint32:
    case TiffPixels::real32:
      return header.is_big_endian;
    case TiffPixels::words:
    case TiffPixels::grey12:
    case TiffPixels::int16:
      return true;
  }
  return true;
}

std::string describe(const TiffHeader& header) {
  constexpr std::string_view kColours[] = {
      "white-is-zero grey", "black-is-zero grey", "RGB", "palette", "mask", "CMYK", "YCbCr"};
  const std::string_view sample = header.sample == TiffSample::real             ? "real"
                                  : header.sample == TiffSample::signed_integer ? "signed"
                                                                                : "unsigned";
  return str_cat(
      kColours[static_cast<size_t>(header.colour)], " of ", header.samples,
      header.samples == 1 ? " sample" : " samples", " of ", header.bits, " bits (", sample,
      ", extra ", list_text<uint32_t>(header.extra), header.is_planar ? ", separate planes" : "",
      header.is_big_endian ? ", big-endian" : "", header.is_lsb_first ? ", lowest bit first" : "",
      header.is_subsampled ? ", subsampled" : "", ", compression ",
      static_cast<uint32_t>(header.compression), ")");
}

}  // namespace

std::variant<TiffLayout, Refusal> choose_tiff_layout(const TiffHeader& stored) {
  const TiffHeader header = without_ignored(stored);
  const std::optional<TiffLayout> layout = choose(header);
  if (!layout.has_value() || is_misread(stored, header, *layout)) {
    return Refusal{Fault::unsupported,
                   str_cat("TIFF: ", describe(stored), " is not read; convert to PNG")};
  }
  return *layout;
}

}  // namespace tessera::intake
