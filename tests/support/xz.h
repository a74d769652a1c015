// Reads .xz files in tests.
#pragma once

#include <lzma.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace tessera::test {

inline std::string read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::runtime_error("cannot open " + path);
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The unpacked contents of `path`, at most 64 MiB.
inline std::string read_xz_file(const std::string& path) {
  const std::string packed = read_text_file(path);
  std::string unpacked(size_t{64} << 20, '\0');
  uint64_t memory_limit = UINT64_MAX;
  size_t in = 0;
  size_t out = 0;
  const lzma_ret result = lzma_stream_buffer_decode(
      &memory_limit, 0, nullptr, reinterpret_cast<const uint8_t*>(packed.data()), &in,
      packed.size(), reinterpret_cast<uint8_t*>(unpacked.data()), &out, unpacked.size());
  if (result != LZMA_OK) {
    throw std::runtime_error(path + " is no .xz file of at most 64 MiB");
  }
  unpacked.resize(out);
  return unpacked;
}

}  // namespace tessera::test
