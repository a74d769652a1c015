// Read-only memory map of a whole file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tessera {

// Throws Error{bad_file} if the file cannot be opened, is no regular file or cannot be mapped; the
// message says what to do (missing, no permission, a Git LFS pointer, ...). Mapping reads nothing.
//
// A file that is truncated or fails to read while it is mapped would kill the process with SIGBUS.
// Every map is registered: the handler that install_map_fault_handler() sets writes one line that
// names the file and ends the process with status 3.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }
  const std::string& path() const { return path_; }

  // Whether the file on disk still has the size and modification time it had when it was mapped.
  bool is_unchanged() const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  int64_t size_ = 0;
  int64_t modified_ns_ = 0;
  int slot_ = -1;  // entry in the fault handler's table
};

// Lets go of the pages of `bytes`, which lie in a MappedFile: they leave the process's memory and
// are read again from the file (or its cache) when touched.
void release_pages(std::span<const std::byte> bytes);

// For main(): turns SIGBUS inside a registered map into
// `PATH: the file was truncated or could not be read while in use` and exit status 3; any other
// SIGBUS keeps its default action.
void install_map_fault_handler();

}  // namespace tessera
