#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/check.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace tessera {
namespace {

constexpr size_t kBufferBytes = size_t{256} << 10;
constexpr size_t kChunkBytes = size_t{1} << 30;  // Linux writes at most 2^31 - 4096 bytes a call

std::string system_text(int error) { return std::generic_category().message(error); }

[[noreturn]] void refuse(const std::string& path, std::string_view what) {
  throw Error(ErrorCode::bad_request, str_cat(path, ": ", what));
}

// Renaming onto a device or pipe would replace it, as root even /dev/null.
void check_target(const std::string& path) {
  if (path.empty()) {
    throw Error(ErrorCode::bad_request, "an output file name is needed, found an empty one");
  }
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists && errno == ENAMETOOLONG) {
    refuse(path, "the path is too long for this system; choose a shorter one");
  }
  if (path.back() == '/' || (exists && S_ISDIR(status.st_mode))) {
    refuse(path, "is a folder, expected a name for the output file; add a file name");
  }
  if (exists && !S_ISREG(status.st_mode)) {
    refuse(path, "is a device, pipe or socket, expected a regular file; choose another name");
  }
}

std::string follow_links(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_symlink(path, ignored)) {
    return path;
  }
  const std::filesystem::path target = std::filesystem::canonical(path, ignored);
  return ignored ? path : target.string();  // a broken link is replaced
}

// "folder/NAME.PROCESS-COUNT.tmp". File names have at most 255 bytes, so NAME may be cut.
std::string temporary_name(const std::string& target) {
  static std::atomic<int64_t> count{0};
  const size_t slash = target.rfind('/');
  const size_t start = slash == std::string::npos ? 0 : slash + 1;
  size_t end = start;
  while (end < target.size() && end - start < 200) {
    end += std::max<size_t>(1, utf8_sequence_bytes(std::string_view(target).substr(end)));
  }
  return str_cat(std::string_view(target).substr(0, end), '.', ::getpid(), '-', count.fetch_add(1),
                 ".tmp");
}

[[noreturn]] void refuse_folder(const std::string& path, const std::string& target, int error) {
  const std::filesystem::path parent = std::filesystem::path(target).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  std::error_code ignored;
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      if (std::filesystem::is_directory(folder, ignored)) {  // /proc and the like
        refuse(path, str_cat("the folder ", folder, " takes no files; choose another one"));
      }
      refuse(path, str_cat("the folder ", folder, " does not exist; make it first"));
    case EACCES:
    case EPERM:
      refuse(path, str_cat("no permission to write into the folder ", folder,
                           "; choose another one or change its mode"));
    case EROFS:
      refuse(path, str_cat("the folder ", folder, " is read-only; choose another one"));
    default:
      throw Error(ErrorCode::io,
                  str_cat(path, ": cannot create a file in ", folder, ": ", system_text(error)));
  }
}

std::string write_error_text(int error) {
  switch (error) {
    case ENOSPC:
      return "the disk is full; free some space or choose another folder";
    case EDQUOT:
      return "the disk quota is used up; free some space or choose another folder";
    case EFBIG:
      return "the file would be larger than the file system or the process limit (ulimit -f) "
             "allows; choose another folder or raise the limit";
    case EFAULT:  // bytes of a mapped file that no longer exist
      return "the bytes to write could not be read; was their source file truncated?";
    default:
      return system_text(error);
  }
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  check_target(path_);
  target_ = follow_links(path_);
  do {  // a name that exists is left over from a killed process with the same id
    temporary_ = temporary_name(target_);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && (errno == EEXIST || errno == EINTR));
  if (descriptor_ < 0) {
    refuse_folder(path_, target_, errno);
  }
}

OutputFile::~OutputFile() { discard(); }

void OutputFile::discard() noexcept {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    descriptor_ = -1;
    ::unlink(temporary_.c_str());
  }
}

void OutputFile::fail(std::string_view action, int error) {
  discard();
  throw Error(ErrorCode::io, str_cat(path_, ": ", action, ": ", write_error_text(error)));
}

void OutputFile::put(const std::byte* data, size_t bytes, int64_t offset) {
  TESSERA_CHECK(descriptor_ >= 0);
  while (bytes > 0) {
    const ssize_t written = ::pwrite(descriptor_, data, std::min(bytes, kChunkBytes), offset);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      fail("cannot write", written < 0 ? errno : ENOSPC);
    }
    data += written;
    offset += written;
    bytes -= static_cast<size_t>(written);
  }
}

void OutputFile::flush() {
  put(reinterpret_cast<const std::byte*>(buffer_.data()), buffer_.size(), flushed_bytes_);
  flushed_bytes_ += static_cast<int64_t>(buffer_.size());
  buffer_.clear();
}

void OutputFile::write(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) {
    flush();
  }
  if (bytes.size() > kBufferBytes) {
    put(bytes.data(), bytes.size(), flushed_bytes_);
    flushed_bytes_ += static_cast<int64_t>(bytes.size());
  } else {
    buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
}

void OutputFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void OutputFile::write_at(int64_t offset, std::span<const std::byte> bytes) {
  TESSERA_CHECK(offset >= 0);
  flush();  // the buffered bytes came first, and may be the ones to overwrite
  put(bytes.data(), bytes.size(), offset);
}

void OutputFile::commit() {
  flush();
  while (::fsync(descriptor_) != 0) {
    if (errno != EINTR) {
      fail("cannot write", errno);
    }
  }
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    fail("cannot rename the finished file to its name", errno);
  }
  // The data is safe since fsync, so a failing close changes nothing.
  ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace tessera
