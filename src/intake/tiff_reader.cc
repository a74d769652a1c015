#include "intake/tiff_reader.h"

#include <tiffio.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera::intake {
namespace {

struct FreeOptions {
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Warnings after which part of the picture would be invented.
bool is_serious(std::string_view module, std::string_view text) {
  if (module == "JPEGLib") {
    return text.starts_with("Premature end") ||
           (text.starts_with("Corrupt JPEG data") && !contains(text, "extraneous bytes"));
  }
  return module.starts_with("Fax") || text.starts_with("Improper JPEG strip/tile size");
}

template <typename T>
int64_t field(TIFF* tiff, uint32_t tag, int64_t absent) {
  T value{};
  return TIFFGetField(tiff, tag, &value) == 1 ? int64_t{value} : absent;
}

}  // namespace

// What libtiff calls; no exception may pass through it.
struct TiffReader::Callbacks {
  static TiffReader& reader(thandle_t handle) { return *static_cast<TiffReader*>(handle); }

  static tmsize_t read(thandle_t handle, void* to, tmsize_t count) {
    TiffReader& self = reader(handle);
    const uint64_t left = self.bytes_.size() - std::min<uint64_t>(self.at_, self.bytes_.size());
    const auto taken =
        static_cast<size_t>(std::min(left, static_cast<uint64_t>(std::max<tmsize_t>(count, 0))));
    if (taken > 0) {
      std::memcpy(to, self.bytes_.data() + self.at_, taken);
    }
    self.at_ += taken;
    return static_cast<tmsize_t>(taken);
  }

  static tmsize_t write(thandle_t, void*, tmsize_t) { return 0; }

  static toff_t seek(thandle_t handle, toff_t offset, int whence) {
    TiffReader& self = reader(handle);
    const uint64_t from = whence == SEEK_SET   ? 0
                          : whence == SEEK_CUR ? self.at_
                                               : self.bytes_.size();
    self.at_ = from + offset;
    return self.at_;
  }

  static int close(thandle_t) { return 0; }
  static toff_t size(thandle_t handle) { return reader(handle).bytes_.size(); }

  // Opened for reading, libtiff does not write here.
  static int map(thandle_t handle, void** base, toff_t* size) {
    *base = const_cast<std::byte*>(reader(handle).bytes_.data());
    *size = reader(handle).bytes_.size();
    return 1;
  }
  static void unmap(thandle_t, void*, toff_t) {}

  static void keep(TiffReader& self, const char* module, const char* text) {
    if (self.message_[0] == '\0') {
      std::snprintf(self.message_.data(), self.message_.size(), "%s: %s",
                    module == nullptr ? "libtiff" : module, text);
      for (char& c : self.message_) {
        c = c == '\0' || (c >= ' ' && c <= '~') ? c : ' ';
      }
    }
  }

  // Both return 1: the message goes no further.
  static int error(TIFF*, void* user, const char* module, const char* format, va_list arguments) {
    std::array<char, 160> text{};
    std::vsnprintf(text.data(), text.size(), format, arguments);
    keep(*static_cast<TiffReader*>(user), module, text.data());
    return 1;
  }
  static int warning(TIFF*, void* user, const char* module, const char* format, va_list arguments) {
    std::array<char, 160> text{};
    std::vsnprintf(text.data(), text.size(), format, arguments);
    if (is_serious(module == nullptr ? "" : module, text.data())) {
      keep(*static_cast<TiffReader*>(user), module, text.data());
    }
    return 1;
  }
};

TiffReader::TiffReader(std::span<const std::byte> bytes, const TiffHeader& header)
    : bytes_(bytes), header_(header) {}

TiffReader::~TiffReader() {
  if (tiff_ != nullptr) {
    TIFFClose(tiff_);
  }
}

std::optional<Refusal> TiffReader::open(const DecodeLimits& limits) {
  const std::unique_ptr<TIFFOpenOptions, FreeOptions> options(TIFFOpenOptionsAlloc());
  if (options == nullptr) {
    throw Error(ErrorCode::out_of_memory, "cannot start libtiff; close other programs");
  }
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), limits.max_decoder_bytes);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), Callbacks::error, this);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), Callbacks::warning, this);
  // "c": strips stay as they are in the file.
  tiff_ = TIFFClientOpenExt("file", "rc", this, Callbacks::read, Callbacks::write, Callbacks::seek,
                            Callbacks::close, Callbacks::size, Callbacks::map, Callbacks::unmap,
                            options.get());
  if (tiff_ == nullptr) {
    return refusal();
  }
  set_decoder_options();
  message_[0] = '\0';  // tags that libtiff does not like do not matter
  if (!agrees()) {
    return Refusal{Fault::corrupt,
                   "TIFF: the directory has contradicting tags; re-encode the picture"};
  }
  return std::nullopt;
}

void TiffReader::set_decoder_options() {
  switch (header_.compression) {
    case TiffCompression::jpeg:
      if (header_.colour == TiffColour::ycbcr) {
        TIFFSetField(tiff_, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
      }
      return;
    case TiffCompression::deflate:
    case TiffCompression::adobe_deflate:
      // libdeflate leaves the end of a strip unwritten where more is stored than the strip has.
      TIFFSetField(tiff_, TIFFTAG_DEFLATE_SUBCODEC, DEFLATE_SUBCODEC_ZLIB);
      return;
    default:
      return;
  }
}

// Types and counts that libtiff reads otherwise, and layers (ImageDepth), which it alone knows.
bool TiffReader::agrees() const {
  const bool is_ycbcr = field<uint16_t>(tiff_, TIFFTAG_PHOTOMETRIC, 0) == PHOTOMETRIC_YCBCR;
  const bool has_same_samples =
      field<uint16_t>(tiff_, TIFFTAG_SAMPLESPERPIXEL, 1) == header_.samples &&
      field<uint16_t>(tiff_, TIFFTAG_BITSPERSAMPLE, 1) == header_.bits &&
      (field<uint16_t>(tiff_, TIFFTAG_PLANARCONFIG, 1) == PLANARCONFIG_SEPARATE) ==
          header_.is_planar &&
      (field<uint16_t>(tiff_, TIFFTAG_FILLORDER, 1) == FILLORDER_LSB2MSB) == header_.is_lsb_first &&
      is_ycbcr == (header_.colour == TiffColour::ycbcr);
  const bool has_same_size =
      field<uint32_t>(tiff_, TIFFTAG_IMAGEWIDTH, 0) == header_.width &&
      field<uint32_t>(tiff_, TIFFTAG_IMAGELENGTH, 0) == header_.height &&
      field<uint32_t>(tiff_, TIFFTAG_IMAGEDEPTH, 1) == 1 &&
      field<uint16_t>(tiff_, TIFFTAG_COMPRESSION, 1) == static_cast<int64_t>(header_.compression);
  if (!has_same_samples || !has_same_size || (TIFFIsTiled(tiff_) != 0) != header_.is_tiled) {
    return false;
  }
  if (header_.is_tiled) {
    return field<uint32_t>(tiff_, TIFFTAG_TILEWIDTH, 0) == header_.block_width &&
           field<uint32_t>(tiff_, TIFFTAG_TILELENGTH, 0) == header_.block_height &&
           TIFFTileRowSize(tiff_) == header_.block_row_bytes() &&
           TIFFTileSize(tiff_) == header_.block_bytes();
  }
  return std::min(field<uint32_t>(tiff_, TIFFTAG_ROWSPERSTRIP, UINT32_MAX), header_.height) ==
             header_.block_height &&
         TIFFScanlineSize(tiff_) == header_.block_row_bytes();
}

std::optional<Refusal> TiffReader::read_row(int64_t y, uint8_t* to) {
  if (fails(TIFFReadScanline(tiff_, to, static_cast<uint32_t>(y), 0) == 1)) {
    return refusal();
  }
  return std::nullopt;
}

std::optional<Refusal> TiffReader::read_block(int64_t index, int64_t bytes, uint8_t* to) {
  const auto block = static_cast<uint32_t>(index);
  const tmsize_t count = header_.is_tiled ? TIFFReadEncodedTile(tiff_, block, to, bytes)
                                          : TIFFReadEncodedStrip(tiff_, block, to, bytes);
  if (fails(count == bytes)) {
    return refusal();
  }
  return std::nullopt;
}

// Decoders of tiles report some failures only by a message.
bool TiffReader::fails(bool is_read) { return !is_read || message_[0] != '\0'; }

Refusal TiffReader::refusal() const {
  const std::string_view text = message_[0] == '\0' ? "unreadable" : message_.data();
  if (contains(text, "Memory allocation of") || contains(text, "No space for")) {
    return {Fault::too_large, str_cat("TIFF: ", text, "; send a smaller picture")};
  }
  const bool is_short = contains(text, "Not enough data") || contains(text, "Premature E") ||
                        contains(text, "Premature end") || contains(text, "Read error");
  return {is_short ? Fault::truncated : Fault::corrupt,
          str_cat("TIFF: ", text, is_short ? "; send the whole file" : "; re-encode the picture")};
}

}  // namespace tessera::intake
