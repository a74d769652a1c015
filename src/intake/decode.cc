#include "intake/decode.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/str_cat.h"
#include "intake/jpeg_decode.h"
#include "intake/limits.h"
#include "intake/png_decode.h"
#include "intake/sniff.h"

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

DecodeResult try_decode_image(std::span<const std::byte> bytes, const DecodeLimits& limits) {
  if (bytes.empty()) {
    return Refusal{Fault::empty, "there are no bytes; send a JPEG or PNG picture"};
  }
  if (static_cast<int64_t>(bytes.size()) > limits.max_bytes) {
    return refuse_size(static_cast<int64_t>(bytes.size()), limits);
  }
  const Sniffed content = sniff(bytes);
  switch (content.kind) {
    case ContentKind::jpeg:
      return decode_jpeg(bytes, limits);
    case ContentKind::png:
      return decode_png(bytes, limits);
    case ContentKind::other_picture:
      return Refusal{Fault::unsupported,
                     str_cat(content.name,
                             " pictures are not supported yet; convert to JPEG or "
                             "PNG")};
    case ContentKind::no_picture:
      break;
  }
  return Refusal{Fault::unrecognised, str_cat("this is no picture, the bytes look like ",
                                              content.name, "; send a JPEG or PNG picture")};
}

DecodedImage decode_image(std::span<const std::byte> bytes, std::string_view name,
                          const DecodeLimits& limits) {
  DecodeResult result = try_decode_image(bytes, limits);
  if (const Refusal* refusal = std::get_if<Refusal>(&result)) {
    throw to_error(name, *refusal);
  }
  return std::get<DecodedImage>(std::move(result));
}

std::vector<std::byte> read_image_file(const std::string& path, const DecodeLimits& limits) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
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
