// The recurrent states of one decoding run. A handle is the index of a state's slot in one block of memory.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"

namespace sharpbeam {

class StatePool {
 public:
  explicit StatePool(int64_t width) : width_(width) {}

  // Allocates `count` slots, lowest first, and writes their handles. The block grows where needed, which moves it.
  void take(int64_t count, int32_t* handles);
  // Frees every slot but the named ones, which must be in use (repeats allowed).
  void retain(const int32_t* handles, int64_t count);

  // Throws std::invalid_argument unless every handle is in use.
  void check(const int32_t* handles, int64_t count) const;
  // Copies the distinct states among `handles` [rows] to `states` [U, width], and writes the index of each row's state
  // among them to parent [rows]. Returns U.
  int64_t gather(const int32_t* handles, int64_t rows, Buffer& states, int32_t* parent);

  bool holds(int32_t handle) const { return handle >= 0 && handle < slots() && used_[handle]; }
  float* at(int32_t handle) { return states_.data() + handle * width_; }
  int64_t slots() const { return static_cast<int64_t>(used_.size()); }

 private:
  void grow(int64_t slots);
  void list_free();

  int64_t width_;
  std::vector<float> states_;      // [slots, width]
  std::vector<uint8_t> used_;      // [slots]
  std::vector<int32_t> free_;      // free slots, highest first: the last one is taken next
  std::vector<int32_t> gathered_;  // [slots] index among the gathered states, or -1
};

}  // namespace sharpbeam
