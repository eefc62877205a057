#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace deepinfer::cpu {

/// Grow-only memory of one kind: once the largest step has been seen, an op allocates nothing.
/// Contents are lost when it grows. Aligned to a cache line, which is also the widest vector.
template <typename T>
class GrowBuffer {
 public:
  T* reserve(std::int64_t count) {
    if (count > capacity_) {
      constexpr std::size_t kAlign = 64;
      const std::size_t bytes =
          (static_cast<std::size_t>(count) * sizeof(T) + kAlign - 1) / kAlign * kAlign;
      data_.reset();
      capacity_ = 0;
      data_.reset(static_cast<T*>(std::aligned_alloc(kAlign, bytes)));
      if (data_ == nullptr) throw std::bad_alloc();
      capacity_ = count;
    }
    return data_.get();
  }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::unique_ptr<T, Free> data_;
  std::int64_t capacity_ = 0;
};

}  // namespace deepinfer::cpu
