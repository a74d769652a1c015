#include "trace/convert.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"

namespace tessera::trace {
namespace {

constexpr int64_t kBlock = 1024;                    // elements converted at a time, on the stack
constexpr int64_t kExactDouble = int64_t{1} << 53;  // up to here a double holds every integer

template <typename Stored, typename Out, typename Function>
void widen_as(const std::byte* data, std::span<Out> out, Function function) {
  for (size_t i = 0; i < out.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, data + i * sizeof(Stored), sizeof(Stored));
    out[i] = function(stored);
  }
}

template <typename Stored, typename Out>
void widen_plain(const std::byte* data, std::span<Out> out) {
  widen_as<Stored>(data, out, [](Stored x) { return static_cast<Out>(x); });
}

// Whether `dtype` was an integer type.
template <typename Out>
bool widen_integers(DType dtype, const std::byte* data, std::span<Out> out) {
  switch (dtype) {
    case DType::i64:
      widen_plain<int64_t>(data, out);
      return true;
    case DType::i32:
      widen_plain<int32_t>(data, out);
      return true;
    case DType::i16:
      widen_plain<int16_t>(data, out);
      return true;
    case DType::i8:
      widen_plain<int8_t>(data, out);
      return true;
    case DType::u64:
      widen_plain<uint64_t>(data, out);
      return true;
    case DType::u32:
      widen_plain<uint32_t>(data, out);
      return true;
    case DType::u16:
      widen_plain<uint16_t>(data, out);
      return true;
    case DType::u8:
      widen_plain<uint8_t>(data, out);
      return true;
    case DType::boolean:
      widen_as<uint8_t>(data, out, [](uint8_t x) { return static_cast<Out>(x != 0); });
      return true;
    default:
      return false;
  }
}

void widen_floats(DType dtype, const std::byte* data, std::span<double> out) {
  switch (dtype) {
    case DType::f64:
      return widen_plain<double>(data, out);
    case DType::f32:
      return widen_plain<float>(data, out);
    case DType::f16:
      return widen_as<uint16_t>(data, out, [](uint16_t x) { return double{f16_to_float(x)}; });
    case DType::bf16:
      return widen_as<bf16>(data, out, [](bf16 x) { return double{to_float(x)}; });
    case DType::f8_e4m3:
      return widen_as<uint8_t>(data, out, [](uint8_t x) { return double{e4m3_to_float(x)}; });
    case DType::f8_e5m2:  // the upper byte of a binary16
      return widen_as<uint8_t>(data, out, [](uint8_t x) {
        return double{f16_to_float(static_cast<uint16_t>(uint32_t{x} << 8))};
      });
    case DType::f8_e8m0:
      return widen_as<uint8_t>(data, out, [](uint8_t x) { return double{e8m0_to_float(x)}; });
    default:
      TESSERA_UNREACHABLE();
  }
}

// IEEE binary16, round to nearest, ties to even; NaN stays NaN.
uint16_t float_to_f16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (u >> 16) & 0x8000U;
  const uint32_t magnitude = u & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return static_cast<uint16_t>(sign | 0x7e00U);
  }
  if (magnitude >= 0x47800000U) {  // 65536
    return static_cast<uint16_t>(sign | 0x7c00U);
  }
  if (magnitude < 0x38800000U) {  // below 2^-14: steps of 2^-24, those of a float in [0.5, 1)
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000U));
  }
  const uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112U << 10)));
}

template <typename Stored>
void store(std::byte* data, int64_t index, Stored value) {
  std::memcpy(data + static_cast<size_t>(index) * sizeof(Stored), &value, sizeof(Stored));
}

// Rounds `value` into element `index`; returns what is stored there.
double store_float(const MutableTensorView& to, int64_t index, double value) {
  // F64 to a 16-bit type rounds twice; no tap is F64.
  const float as_float = static_cast<float>(value);
  switch (to.dtype) {
    case DType::f64:
      store(to.data, index, value);
      return value;
    case DType::f32:
      store(to.data, index, as_float);
      return double{as_float};
    case DType::bf16:
      store(to.data, index, to_bf16(as_float));
      return double{round_bf16(as_float)};
    case DType::f16:
      store(to.data, index, float_to_f16(as_float));
      return double{f16_to_float(float_to_f16(as_float))};
    default:
      TESSERA_UNREACHABLE();
  }
}

template <typename Stored>
bool store_in_range(std::byte* data, int64_t index, int64_t value) {
  if (!std::in_range<Stored>(value)) {
    return false;
  }
  store(data, index, static_cast<Stored>(value));
  return true;
}

// Whether `value` fits.
bool store_integer(const MutableTensorView& to, int64_t index, int64_t value) {
  switch (to.dtype) {
    case DType::i64:
      return store_in_range<int64_t>(to.data, index, value);
    case DType::i32:
      return store_in_range<int32_t>(to.data, index, value);
    case DType::i16:
      return store_in_range<int16_t>(to.data, index, value);
    case DType::i8:
      return store_in_range<int8_t>(to.data, index, value);
    case DType::u64:
      return store_in_range<uint64_t>(to.data, index, value);
    case DType::u32:
      return store_in_range<uint32_t>(to.data, index, value);
    case DType::u16:
      return store_in_range<uint16_t>(to.data, index, value);
    case DType::u8:
      return store_in_range<uint8_t>(to.data, index, value);
    case DType::boolean:
      return (value == 0 || value == 1) && store_in_range<uint8_t>(to.data, index, value);
    default:
      TESSERA_UNREACHABLE();
  }
}

// Stores one int64 into any type; whether it was exact.
bool store_exact(const MutableTensorView& to, int64_t index, int64_t value) {
  if (is_integer(to.dtype)) {
    return store_integer(to, index, value);
  }
  return value >= -kExactDouble && value <= kExactDouble &&
         store_float(to, index, static_cast<double>(value)) == static_cast<double>(value);
}

// Stores one double into an integer type; whether it was exact.
bool store_whole(const MutableTensorView& to, int64_t index, double value) {
  return value >= static_cast<double>(-kExactDouble) &&
         value <= static_cast<double>(kExactDouble) && value == std::nearbyint(value) &&
         store_integer(to, index, static_cast<int64_t>(value));
}

template <typename Value>
[[noreturn]] void fail_exact(std::string_view name, int64_t index, Value value, DType dtype) {
  throw Error(ErrorCode::bad_file,
              str_cat(name, ": element ", index, " is ", value, ", which ", dtype_name(dtype),
                      " cannot hold; is the file a trace of the same model?"));
}

template <typename Out, typename Function>
void for_each(const TensorView& view, Function function) {
  std::array<Out, kBlock> block;
  const int64_t elements = view.elements();
  for (int64_t begin = 0; begin < elements; begin += kBlock) {
    const auto values =
        std::span(block).first(static_cast<size_t>(std::min(kBlock, elements - begin)));
    widen(view, begin, values);
    for (size_t i = 0; i < values.size(); ++i) {
      function(begin + static_cast<int64_t>(i), values[i]);
    }
  }
}

bool is_eight_bit_float(DType dtype) {
  return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2 || dtype == DType::f8_e8m0;
}

}  // namespace

bool is_integer(DType dtype) {
  switch (dtype) {
    case DType::i64:
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::u64:
    case DType::u32:
    case DType::u16:
    case DType::u8:
    case DType::boolean:
      return true;
    default:
      return false;
  }
}

void widen(const TensorView& view, int64_t begin, std::span<double> out) {
  TESSERA_CHECK(begin >= 0 && begin + static_cast<int64_t>(out.size()) <= view.elements());
  const std::byte* data = view.data + begin * dtype_bytes(view.dtype);
  if (!widen_integers(view.dtype, data, out)) {
    widen_floats(view.dtype, data, out);
  }
}

void widen(const TensorView& view, int64_t begin, std::span<int64_t> out) {
  TESSERA_CHECK(begin >= 0 && begin + static_cast<int64_t>(out.size()) <= view.elements());
  const std::byte* data = view.data + begin * dtype_bytes(view.dtype);
  if (!widen_integers(view.dtype, data, out)) {
    throw Error(ErrorCode::bad_file, str_cat("tensor of type ", dtype_name(view.dtype),
                                             ": expected integers (I64, I32, U8 ...)"));
  }
  if (view.dtype == DType::u64) {
    for (const int64_t value : out) {
      if (value < 0) {
        throw Error(ErrorCode::bad_file,
                    str_cat("tensor of type U64: expected values up to 2^63 - 1, found ",
                            static_cast<uint64_t>(value)));
      }
    }
  }
}

std::vector<float> to_floats(const TensorView& view) {
  std::vector<float> out(static_cast<size_t>(view.elements()));
  for_each<double>(view, [&](int64_t i, double value) {
    out[static_cast<size_t>(i)] = static_cast<float>(value);
  });
  return out;
}

std::vector<double> to_doubles(const TensorView& view) {
  std::vector<double> out(static_cast<size_t>(view.elements()));
  widen(view, 0, std::span(out));
  return out;
}

std::vector<int64_t> to_integers(const TensorView& view) {
  std::vector<int64_t> out(static_cast<size_t>(view.elements()));
  widen(view, 0, std::span(out));
  return out;
}

void convert(const TensorView& from, const MutableTensorView& to, std::string_view name) {
  TESSERA_CHECK(from.elements() == to.elements());
  if (from.dtype == to.dtype) {
    if (from.bytes() > 0) {
      std::memmove(to.data, from.data, static_cast<size_t>(from.bytes()));
    }
    return;
  }
  if (is_eight_bit_float(to.dtype)) {
    throw Error(ErrorCode::unsupported,
                str_cat(name, ": cannot turn ", dtype_name(from.dtype), " into ",
                        dtype_name(to.dtype), "; 8-bit floats are only copied"));
  }
  if (is_integer(from.dtype)) {
    for_each<int64_t>(from, [&](int64_t i, int64_t value) {
      if (!store_exact(to, i, value)) {
        fail_exact(name, i, value, to.dtype);
      }
    });
  } else if (is_integer(to.dtype)) {
    for_each<double>(from, [&](int64_t i, double value) {
      if (!store_whole(to, i, value)) {
        fail_exact(name, i, value, to.dtype);
      }
    });
  } else {
    for_each<double>(from, [&](int64_t i, double value) { store_float(to, i, value); });
  }
}

}  // namespace tessera::trace
