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
  // Throws Error{bad_request} if the folder is missing or not writable.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Throw Error{io} when the disk is full or the write fails; the message names the final path.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void write_at(int64_t offset, std::span<const std::byte> bytes);
  void commit();  // flush, fsync, rename

 private:
  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
};

}  // namespace tessera
