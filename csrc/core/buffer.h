// Memory for floats, aligned to cache lines, on huge pages where it is large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sharpbeam {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t size) { reserve(size); }

  // At least `size` uninitialized floats. A buffer that grows loses its contents; it never shrinks.
  void reserve(int64_t size);

  float* get() { return data_.get(); }
  const float* get() const { return data_.get(); }

 private:
  struct Free {
    size_t bytes;  // requested
    void operator()(float* p) const;
  };
  std::unique_ptr<float[], Free> data_;  // null until the first reserve
  int64_t size_ = 0;
};

// Shared, immutable floats.
using Array = std::shared_ptr<const float>;

// The memory of `buffer`, of at least `size` floats.
inline float* reserved(Buffer& buffer, int64_t size) {
  buffer.reserve(size);
  return buffer.get();
}

}  // namespace sharpbeam
