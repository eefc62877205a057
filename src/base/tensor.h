#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/dtype.h"
#include "base/error.h"

namespace deepinfer {

/// Row-major extents, up to four axes, last index fastest.
class Shape {
 public:
  static constexpr int kMaxRank = 4;
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents)
      : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const std::int64_t> extents) {
    if (extents.size() > kMaxRank) fail_internal("a tensor has more than four axes");
    for (const std::int64_t extent : extents) extents_[static_cast<std::size_t>(rank_++)] = extent;
  }
  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return extents_[static_cast<std::size_t>(axis)]; }
  std::int64_t elements() const {
    std::int64_t product = 1;
    for (int axis = 0; axis < rank_; ++axis) product *= (*this)[axis];
    return product;
  }
  bool operator==(const Shape&) const = default;

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

/// `[a, b]`, for messages.
std::string to_string(const Shape& shape);

/// A tensor as it lies in memory, whatever its type: a view that never owns. `data` may be in a
/// memory-mapped file, so no alignment beyond one byte may be assumed for checkpoint tensors.
struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;

  std::size_t bytes() const { return static_cast<std::size_t>(shape.elements()) * size_of(dtype); }
};

/// A float32 matrix view, row-major with a row stride: what ops read (`ConstMatrix`) and write
/// (`Matrix`). `cols` elements of each row are contiguous.
template <typename T>
struct BasicMatrix {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;

  BasicMatrix() = default;
  BasicMatrix(T* data_, std::int64_t rows_, std::int64_t cols_)
      : data(data_), rows(rows_), cols(cols_), stride(cols_) {}
  BasicMatrix(T* data_, std::int64_t rows_, std::int64_t cols_, std::int64_t stride_)
      : data(data_), rows(rows_), cols(cols_), stride(stride_) {}
  // NOLINTNEXTLINE(google-explicit-constructor): a mutable view is always usable as a const one.
  operator BasicMatrix<const T>() const { return {data, rows, cols, stride}; }

  T* row(std::int64_t index) const { return data + index * stride; }
  std::span<T> row_span(std::int64_t index) const {
    return {row(index), static_cast<std::size_t>(cols)};
  }
  BasicMatrix rows_from(std::int64_t first, std::int64_t count) const {
    return {row(first), count, cols, stride};
  }
};
using Matrix = BasicMatrix<float>;
using ConstMatrix = BasicMatrix<const float>;

}  // namespace deepinfer
