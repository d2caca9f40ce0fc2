// Floats aligned to cache lines, on huge pages where there are many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sharpbeam {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t size) { reserve(size); }

  // At least `size` uninitialised floats; what was there is lost if the buffer grows, and never shrinks.
  void reserve(int64_t size);

  float* get() { return data_.get(); }
  const float* get() const { return data_.get(); }

 private:
  struct Free {
    size_t bytes;  // that were asked for
    void operator()(float* p) const;
  };
  std::unique_ptr<float[], Free> data_;  // null until something is reserved
  int64_t size_ = 0;
};

// Floats that others hold too, and nobody writes to.
using Array = std::shared_ptr<const float>;

// `size` floats of `buffer`.
inline float* reserved(Buffer& buffer, int64_t size) {
  buffer.reserve(size);
  return buffer.get();
}

}  // namespace sharpbeam
