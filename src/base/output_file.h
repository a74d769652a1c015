// A file that appears complete or not at all: written under a temporary name in the same folder and
// renamed by commit(). Without commit() (an error, an interrupt that unwinds) the temporary is
// removed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

class OutputFile {
 public:
  // Throws Error{bad_request} if the folder is missing or not writable, or if `path` is a folder, a
  // device or a pipe. A link is followed: the file it names is replaced, not the link.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Throw Error{io} when the disk is full or the write fails; the message names the final path. The
  // temporary is then gone, and nothing more can be written. write() appends to what write() wrote;
  // write_at() does not move its place.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void write_at(int64_t offset, std::span<const std::byte> bytes);
  void commit();  // flush, fsync, rename; the last call on this object

  const std::string& path() const { return path_; }

 private:
  void flush();
  void put(const std::byte* data, size_t bytes, int64_t offset);
  [[noreturn]] void fail(std::string_view action, int error);
  void discard() noexcept;

  std::string path_;       // as given, for messages
  std::string target_;     // path_ with links followed
  std::string temporary_;  // in the folder of target_
  std::string buffer_;     // small writes wait here
  int64_t flushed_bytes_ = 0;
  int descriptor_ = -1;
};

}  // namespace tessera
