#include "intake/decode.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/str_cat.h"
#include "image/orient.h"
#include "intake/bmp_decode.h"
#include "intake/gif_decode.h"
#include "intake/jpeg_decode.h"
#include "intake/limits.h"
#include "intake/png_decode.h"
#include "intake/pnm_decode.h"
#include "intake/sniff.h"
#include "intake/tiff_decode.h"
#include "intake/webp_decode.h"

namespace tessera::intake {
namespace {

Refusal refuse_size(int64_t bytes, const DecodeLimits& limits) {
  return {Fault::too_large, str_cat("the file has ", bytes, " bytes, at most ", limits.max_bytes,
                                    " are read; send a smaller picture")};
}

std::string system_message(int code) { return std::generic_category().message(code); }

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// -1 and errno if it cannot be opened, or leads out of the folder. ENOSYS: Linux before 5.6.
int open_beneath(const std::string& root, const std::string& path) {
  constexpr uint64_t kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  const Descriptor folder(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) {
    return -1;
  }
  struct open_how how = {};
  how.flags = kFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(::syscall(SYS_openat2, folder.get(), path.c_str(), &how, sizeof(how)));
}

std::string_view accepted(const image::Policy& policy) {
  return policy.formats == image::FormatRule::web
             ? "JPEG, PNG, GIF or WebP picture"
             : "JPEG, PNG, WebP, GIF, BMP, TIFF or PNM picture";
}

DecodeResult decode_content(std::span<const std::byte> bytes, const DecodeOptions& options) {
  const Sniffed content = sniff(bytes);
  const bool reads_all = options.policy.formats == image::FormatRule::all;
  switch (content.kind) {
    case ContentKind::jpeg:
      return decode_jpeg(bytes, options);
    case ContentKind::png:
      return decode_png(bytes, options);
    case ContentKind::webp:
      return decode_webp(bytes, options);
    case ContentKind::gif:
      return decode_gif(bytes, options);
    case ContentKind::bmp:
      if (reads_all) {
        return decode_bmp(bytes, options);
      }
      break;
    case ContentKind::tiff:
      if (reads_all) {
        return decode_tiff(bytes, options);
      }
      break;
    case ContentKind::pnm:
      if (reads_all) {
        return decode_pnm(bytes, options);
      }
      break;
    case ContentKind::other_picture:
      break;
    case ContentKind::no_picture:
      return Refusal{Fault::unrecognised,
                     str_cat("this is no picture, the bytes look like ", content.name, "; send a ",
                             accepted(options.policy))};
  }
  return Refusal{Fault::unsupported,
                 str_cat(content.name, " pictures are not read", reads_all ? "" : " by policy ",
                         reads_all ? "" : options.policy.name, "; convert to JPEG or PNG")};
}

}  // namespace

std::optional<Refusal> check_header_size(std::string_view format, int64_t width, int64_t height,
                                         const DecodeLimits& limits) {
  if (width < 1 || height < 1) {
    return Refusal{Fault::corrupt, str_cat("the ", format, " header says ", width, " x ", height,
                                           " pixels; re-encode the picture")};
  }
  if (width > limits.max_side || height > limits.max_side) {
    return Refusal{Fault::too_large, str_cat("the ", format, " header says ", width, " x ", height,
                                             " pixels, the longest side may be ", limits.max_side,
                                             "; send a smaller picture")};
  }
  if (width * height > limits.max_pixels) {
    return Refusal{
        Fault::too_large,
        str_cat("the ", format, " header says ", width, " x ", height, " = ", width * height,
                " pixels, at most ", limits.max_pixels, " are decoded; send a smaller picture")};
  }
  return std::nullopt;
}

Refusal refuse_late(std::string_view format) {
  return {Fault::timed_out, str_cat(format,
                                    ": decoding took longer than allowed; send a smaller "
                                    "picture or try again later")};
}

DecodeResult try_decode_image(std::span<const std::byte> bytes, const DecodeOptions& options) {
  if (bytes.empty()) {
    return Refusal{Fault::empty, str_cat("there are no bytes; send a ", accepted(options.policy))};
  }
  if (static_cast<int64_t>(bytes.size()) > options.limits.max_bytes) {
    return refuse_size(static_cast<int64_t>(bytes.size()), options.limits);
  }
  DecodeResult result = decode_content(bytes, options);
  DecodedImage* decoded = std::get_if<DecodedImage>(&result);
  if (decoded != nullptr && options.policy.applies_exif) {
    decoded->rgb = image::orient(std::move(decoded->rgb), decoded->exif_orientation);
  }
  return result;
}

DecodedImage decode_image(std::span<const std::byte> bytes, std::string_view name,
                          const DecodeOptions& options) {
  DecodeResult result = try_decode_image(bytes, options);
  if (const Refusal* refusal = std::get_if<Refusal>(&result)) {
    throw to_error(name, *refusal);
  }
  return std::get<DecodedImage>(std::move(result));
}

std::vector<std::byte> read_image_file(const std::string& path, const DecodeLimits& limits,
                                       const std::string& root) {
  const Descriptor file(root.empty() ? ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)
                                     : open_beneath(root, path));
  if (file.get() < 0) {
    if (!root.empty() && errno == ENOSYS) {
      throw Error(ErrorCode::unsupported,
                  "pictures below a media root need Linux 5.6 or newer (openat2)");
    }
    throw Error(ErrorCode::bad_file,
                str_cat(path, ": cannot open the picture: ", system_message(errno),
                        "; check the path and its permissions"));
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::bad_file, str_cat(path, ": expected a picture file, found ",
                                             S_ISDIR(status.st_mode) ? "a folder" : "no file",
                                             "; give the path of a picture"));
  }
  if (status.st_size > limits.max_bytes) {
    throw to_error(path, refuse_size(status.st_size, limits));
  }
  std::vector<std::byte> bytes(static_cast<size_t>(status.st_size));
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      throw Error(ErrorCode::io,
                  str_cat(path, ": reading failed: ", system_message(errno), "; check the disk"));
    }
    if (got == 0) {
      break;  // shrank meanwhile: the decoder will call it truncated
    }
    have += static_cast<size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

}  // namespace tessera::intake
