// Test helpers: temporary trace files and the golden traces of the repository.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "tensor/tensor.h"

namespace tessera::trace {

// A folder that goes with all its files.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tessera-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      throw Error(ErrorCode::io, str_cat("cannot make a folder ", pattern));
    }
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string operator/(std::string_view name) const { return str_cat(path_, "/", name); }

 private:
  std::string path_;
};

// Writes a safetensors file from its JSON header and its data area.
inline void write_raw_safetensors(const std::string& path, std::string_view header,
                                  std::string_view data) {
  std::ofstream out(path, std::ios::binary);
  const uint64_t length = header.size();
  char bytes[sizeof(length)];
  std::memcpy(bytes, &length, sizeof(length));
  out.write(bytes, sizeof(bytes));
  out.write(header.data(), static_cast<std::streamsize>(header.size()));
  out.write(data.data(), static_cast<std::streamsize>(data.size()));
}

inline std::string golden(std::string_view name) {
  return str_cat(TESSERA_SOURCE_DIR, "/tests/golden/", name);
}

// A tensor with these values.
template <typename T>
Tensor tensor_of(const Shape& shape, const std::vector<T>& values) {
  Tensor out(DTypeOf<T>::value, shape);
  TESSERA_CHECK(shape.elements() == static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    out.as<T>()[i] = values[i];
  }
  return out;
}

// The message of the Error{bad_file or bad_request} that `function` throws; empty if it throws
// none.
template <typename Function>
std::string error_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace tessera::trace
