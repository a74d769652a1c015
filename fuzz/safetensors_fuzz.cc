// io/safetensors.h: an accepted header describes tensors that tile the data area exactly.
#include "fuzz/target.h"
#include "io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tessera::io::SafetensorsHeader;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const int64_t file_bytes = static_cast<int64_t>(size);
  const std::optional<SafetensorsHeader> header = tessera::fuzz::parse_or_refuse(
      [&] { return tessera::io::parse_safetensors_header(bytes, file_bytes, "input"); });
  if (!header.has_value() || header->tensors.empty()) {
    return 0;
  }
  int64_t covered = header->tensors.front().begin;
  TESSERA_CHECK(covered >= 8);
  for (const tessera::io::TensorEntry& tensor : header->tensors) {
    TESSERA_CHECK(tensor.begin == covered && tensor.end >= tensor.begin);
    TESSERA_CHECK(tensor.end - tensor.begin ==
                  tensor.shape.elements() * tessera::dtype_bytes(tensor.dtype));
    TESSERA_CHECK(tessera::is_valid_utf8(tensor.name));
    covered = tensor.end;
  }
  TESSERA_CHECK(covered == file_bytes);
  return 0;
}
