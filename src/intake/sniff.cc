#include "intake/sniff.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "base/text.h"

namespace tessera::intake {
namespace {

using namespace std::string_view_literals;

struct Signature {
  size_t offset;
  std::string_view bytes;
  ContentKind kind;
  std::string_view name;
};

constexpr ContentKind kPicture = ContentKind::other_picture;
constexpr ContentKind kOther = ContentKind::no_picture;

// First match wins.
constexpr Signature kSignatures[] = {
    {0, "\xff\xd8\xff"sv, ContentKind::jpeg, "JPEG"},
    {0, "\x89PNG\r\n\x1a\n"sv, ContentKind::png, "PNG"},
    {0, "GIF87a"sv, ContentKind::gif, "GIF"},
    {0, "GIF89a"sv, ContentKind::gif, "GIF"},
    {0, "II*\0"sv, ContentKind::tiff, "TIFF"},
    {0, "MM\0*"sv, ContentKind::tiff, "TIFF"},
    {0, "II+\0"sv, kPicture, "BigTIFF"},
    {0, "MM\0+"sv, kPicture, "BigTIFF"},
    {0, "\0\0\0\x0cjP  \r\n\x87\n"sv, kPicture, "JPEG 2000"},
    {0, "\xff\x4f\xff\x51"sv, kPicture, "JPEG 2000"},
    {0, "\0\0\0\x0cJXL \r\n\x87\n"sv, kPicture, "JPEG XL"},
    {0, "\xff\x0a"sv, kPicture, "JPEG XL"},
    {0, "8BPS\0"sv, kPicture, "PSD"},
    {0, "qoif"sv, kPicture, "QOI"},
    {0, "DDS "sv, kPicture, "DDS"},
    {4, "ftypavif"sv, kPicture, "AVIF"},
    {4, "ftypavis"sv, kPicture, "AVIF"},
    {4, "ftyphei"sv, kPicture, "HEIC"},
    {4, "ftyphev"sv, kPicture, "HEIC"},
    {4, "ftypmif1"sv, kPicture, "HEIF"},
    {4, "ftypmsf1"sv, kPicture, "HEIF"},
    {4, "ftyp"sv, kOther, "a video (MP4 or QuickTime)"},
    {0, "\x1a\x45\xdf\xa3"sv, kOther, "a video (Matroska or WebM)"},
    {0, "%PDF-"sv, kOther, "a PDF document"},
    {0, "PK\3\4"sv, kOther, "a ZIP archive"},
    {0, "\x1f\x8b"sv, kOther, "gzip data"},
    {0, "\x7f\x45LF"sv, kOther, "a program"},
    {0, "OggS"sv, kOther, "Ogg audio or video"},
    {0, "ID3"sv, kOther, "MP3 audio"},
    {0, "version https://git-lfs"sv, kOther, "a Git LFS pointer (run `git lfs pull`)"},
};

uint32_t byte_at(std::string_view text, size_t i) {
  return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
}

uint32_t little_endian_16(std::string_view text, size_t i) {
  return byte_at(text, i) | byte_at(text, i + 1) << 8;
}

bool is_bmp(std::string_view text) {
  // Sizes of the known information headers; two letters alone would match plain text.
  constexpr std::array<uint32_t, 7> kHeaders = {12, 40, 52, 56, 64, 108, 124};
  const uint32_t header = little_endian_16(text, 14) | little_endian_16(text, 16) << 16;
  return text.starts_with("BM") && text.size() >= 18 &&
         std::find(kHeaders.begin(), kHeaders.end(), header) != kHeaders.end();
}

// Icons and cursors. TGA files can begin with the same four bytes, but then no entry follows.
bool is_icon(std::string_view text) {
  return (text.starts_with("\0\0\1\0"sv) || text.starts_with("\0\0\2\0"sv)) &&
         little_endian_16(text, 4) > 0 && byte_at(text, 9) == 0;
}

bool is_pnm(std::string_view text) {
  return text.size() >= 3 && text[0] == 'P' && text[1] >= '1' && text[1] <= '7' &&
         " \t\r\n#"sv.find(text[2]) != std::string_view::npos;
}

// TGA has no signature: every field of the header must make sense, or the version 2 footer stands.
bool is_tga(std::string_view text) {
  if (text.size() >= 44 && text.ends_with("TRUEVISION-XFILE.\0"sv)) {
    return true;
  }
  const uint32_t map_kind = byte_at(text, 1);
  const uint32_t kind = byte_at(text, 2);
  const uint32_t map_first = little_endian_16(text, 3);
  const uint32_t map_length = little_endian_16(text, 5);
  const uint32_t map_depth = byte_at(text, 7);
  const uint32_t depth = byte_at(text, 16);
  const bool is_mapped = kind == 1 || kind == 9;
  const bool is_true_colour = kind == 2 || kind == 10;
  const bool is_grey = kind == 3 || kind == 11;
  const bool has_good_map =
      is_mapped ? map_kind == 1 && map_length > 0 &&
                      (map_depth == 15 || map_depth == 16 || map_depth == 24 || map_depth == 32)
                : map_kind == 0 && map_first == 0 && map_length == 0 && map_depth == 0;
  const bool has_good_depth = is_true_colour
                                  ? depth == 15 || depth == 16 || depth == 24 || depth == 32
                                  : (is_mapped || is_grey) && (depth == 8 || depth == 16);
  return text.size() > 18 && has_good_map && has_good_depth && little_endian_16(text, 12) > 0 &&
         little_endian_16(text, 14) > 0 && (byte_at(text, 17) & 0xc0U) == 0;
}

// Whether the start is UTF-8 without control characters. The last character may be cut.
bool is_text(std::string_view text) {
  constexpr size_t kLongestCut = 3;
  for (size_t i = 0; i < text.size();) {
    const uint32_t lead = byte_at(text, i);
    if (lead == 0x7f || (lead < 0x20 && "\t\n\r\f"sv.find(text[i]) == std::string_view::npos)) {
      return false;
    }
    const size_t length = utf8_sequence_bytes(text.substr(i));
    if (length == 0) {
      return i > 0 && lead >= 0xc2 && text.size() - i <= kLongestCut;
    }
    i += length;
  }
  return true;
}

std::string_view text_name(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) {
    text.remove_prefix(3);
  }
  const size_t begin = text.find_first_not_of(" \t\r\n");
  std::string lower(begin == std::string_view::npos ? ""sv : text.substr(begin));
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (lower.find("<svg") != std::string::npos && lower.starts_with('<')) {
    return "an SVG drawing";
  }
  if (lower.starts_with("<!doctype html") || lower.starts_with("<html") ||
      lower.starts_with("<head") || lower.starts_with("<body")) {
    return "an HTML page";
  }
  if (lower.starts_with("<?xml")) {
    return "XML";
  }
  if (lower.starts_with("data:")) {
    return "a data: URL as text";
  }
  return "text";
}

}  // namespace

Sniffed sniff(std::span<const std::byte> bytes) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Signature& s : kSignatures) {
    if (all.size() >= s.offset + s.bytes.size() &&
        all.substr(s.offset, s.bytes.size()) == s.bytes) {
      return {s.kind, s.name};
    }
  }
  if (all.starts_with("RIFF") && all.size() >= 12) {
    const std::string_view form = all.substr(8, 4);
    return form == "WEBP"   ? Sniffed{ContentKind::webp, "WebP"}
           : form == "WAVE" ? Sniffed{kOther, "WAVE audio"}
                            : Sniffed{kOther, "a RIFF file"};
  }
  if (is_bmp(all)) {
    return {ContentKind::bmp, "BMP"};
  }
  if (is_icon(all)) {
    return {kPicture, "ICO"};
  }
  if (is_pnm(all)) {
    return {ContentKind::pnm, "PNM"};
  }
  if (is_tga(all)) {
    return {kPicture, "TGA"};
  }
  const std::string_view head = all.substr(0, 1024);
  if (!head.empty() && is_text(head)) {
    return {kOther, text_name(head)};
  }
  return {kOther, all.empty() ? "no bytes" : "nothing known"};
}

}  // namespace tessera::intake
