// Elements of a tensor of any storage type as double, float or int64, and back. Readers of traces
// widen what files store compactly (taps: BF16 values, U8 masks and pixels).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace tessera::trace {

// I8 to U64 and BOOL.
bool is_integer(DType dtype);

// Elements begin .. begin + out.size() - 1, which must exist. Data may be unaligned.
// As double: exact for every type but I64 and U64 beyond 2^53 (rounded).
void widen(const TensorView& view, int64_t begin, std::span<double> out);
// As int64: throws Error{bad_file} for a float type and for a U64 beyond 2^63 - 1.
void widen(const TensorView& view, int64_t begin, std::span<int64_t> out);

// The whole tensor. to_floats rounds what a float cannot hold (F64, integers beyond 2^24).
std::vector<float> to_floats(const TensorView& view);
std::vector<double> to_doubles(const TensorView& view);
std::vector<int64_t> to_integers(const TensorView& view);

// Writes `from` into `to`, which has the same number of elements. Floats become floats by rounding
// to nearest, ties to even. Everything else must be exact: integers in range, integers that the
// float type holds, floats that are whole numbers. Throws Error{bad_file} that begins with `name`
// and gives the element otherwise, Error{unsupported} for an 8-bit float that is not a copy.
void convert(const TensorView& from, const MutableTensorView& to, std::string_view name);

}  // namespace tessera::trace
