// Shapes, borrowed views and owned tensors. Row-major and contiguous throughout.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "tensor/dtype.h"

namespace tessera {

// Up to six dimensions, each >= 0. Shape{} is a scalar.
class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
    TESSERA_CHECK(rank_ <= kMaxRank);
    for (int i = 0; i < rank_; ++i) {
      dims_[static_cast<size_t>(i)] = dims[static_cast<size_t>(i)];
    }
  }

  int rank() const { return rank_; }
  int64_t operator[](int i) const {
    TESSERA_DCHECK(i >= 0 && i < rank_);
    return dims_[static_cast<size_t>(i)];
  }
  std::span<const int64_t> dims() const {
    return std::span(dims_).first(static_cast<size_t>(rank_));
  }
  int64_t elements() const {
    int64_t n = 1;
    for (const int64_t d : dims()) {
      n *= d;
    }
    return n;
  }
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

std::string shape_text(const Shape& shape);  // "[2,3]"

// Borrowed elements, not writable. Data may be unaligned when it comes from a file.
struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  int64_t elements() const { return shape.elements(); }
  int64_t bytes() const { return elements() * dtype_bytes(dtype); }
  template <typename T>
  const T* as() const {
    TESSERA_CHECK(dtype == DTypeOf<T>::value);
    return reinterpret_cast<const T*>(data);
  }
};

// Borrowed elements, writable.
struct MutableTensorView {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  int64_t elements() const { return shape.elements(); }
  int64_t bytes() const { return elements() * dtype_bytes(dtype); }
  template <typename T>
  T* as() const {
    TESSERA_CHECK(dtype == DTypeOf<T>::value);
    return reinterpret_cast<T*>(data);
  }
  operator TensorView() const {
    return {data, dtype, shape};
  }  // NOLINT(google-explicit-constructor)
};

template <typename T>
TensorView view_of(const T* data, Shape shape) {
  return {reinterpret_cast<const std::byte*>(data), DTypeOf<T>::value, shape};
}
template <typename T>
MutableTensorView mutable_view_of(T* data, Shape shape) {
  return {reinterpret_cast<std::byte*>(data), DTypeOf<T>::value, shape};
}

// Move-only owner, 64-byte aligned, not initialised.
class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype, const Shape& shape)
      : buffer_(shape.elements() * dtype_bytes(dtype)), dtype_(dtype), shape_(shape) {}

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t bytes() const { return buffer_.bytes(); }
  TensorView view() const { return {buffer_.data(), dtype_, shape_}; }
  MutableTensorView mutable_view() { return {buffer_.data(), dtype_, shape_}; }
  template <typename T>
  const T* as() const {
    return view().as<T>();
  }
  template <typename T>
  T* as() {
    return mutable_view().as<T>();
  }

 private:
  AlignedBuffer buffer_;
  DType dtype_ = DType::f32;
  Shape shape_;
};

}  // namespace tessera
