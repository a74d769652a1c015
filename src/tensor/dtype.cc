#include "tensor/dtype.h"

#include <array>

#include "base/check.h"

namespace tessera {
namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  int64_t bytes;
};

constexpr std::array<Entry, 16> kTypes = {{{DType::f64, "F64", 8},
                                           {DType::f32, "F32", 4},
                                           {DType::f16, "F16", 2},
                                           {DType::bf16, "BF16", 2},
                                           {DType::f8_e4m3, "F8_E4M3", 1},
                                           {DType::f8_e5m2, "F8_E5M2", 1},
                                           {DType::f8_e8m0, "F8_E8M0", 1},
                                           {DType::i64, "I64", 8},
                                           {DType::i32, "I32", 4},
                                           {DType::i16, "I16", 2},
                                           {DType::i8, "I8", 1},
                                           {DType::u64, "U64", 8},
                                           {DType::u32, "U32", 4},
                                           {DType::u16, "U16", 2},
                                           {DType::u8, "U8", 1},
                                           {DType::boolean, "BOOL", 1}}};

const Entry& entry(DType dtype) {
  for (const Entry& e : kTypes) {
    if (e.dtype == dtype) {
      return e;
    }
  }
  TESSERA_UNREACHABLE();
}

}  // namespace

int64_t dtype_bytes(DType dtype) { return entry(dtype).bytes; }

std::string_view dtype_name(DType dtype) { return entry(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Entry& e : kTypes) {
    if (e.name == name) {
      return e.dtype;
    }
  }
  return std::nullopt;
}

}  // namespace tessera
