// Scratch memory of the calling thread. It only grows, so that warm calls allocate nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"

namespace sharpbeam {

// The one `T` of this thread. A layer whose call asks another layer must not share its T with that one.
template <typename T>
T& thread_scratch() {
  thread_local T own;
  return own;
}

// At least `size` elements of `values`, which keep what they hold.
template <typename T>
T* reserved(std::vector<T>& values, int64_t size) {
  if (values.size() < static_cast<size_t>(size)) values.resize(static_cast<size_t>(size));
  return values.data();
}

// `size` int8 numbers of `buffer`.
inline int8_t* reserved_int8(Buffer& buffer, int64_t size) {
  return reinterpret_cast<int8_t*>(reserved(buffer, size / static_cast<int64_t>(sizeof(float)) + 1));
}

}  // namespace sharpbeam
