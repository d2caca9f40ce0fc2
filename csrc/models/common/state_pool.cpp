#include "models/common/state_pool.h"

#include <algorithm>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>

namespace sharpbeam {

void StatePool::grow(int64_t slots) {
  if (slots > std::numeric_limits<int32_t>::max()) throw std::bad_alloc();  // a handle is an int32
  states_.resize(slots * width_);
  free_.reserve(slots);
  used_.resize(slots, 0);
  gathered_.resize(slots, -1);
  list_free();
}

void StatePool::list_free() {
  free_.clear();
  for (int64_t slot = slots() - 1; slot >= 0; --slot)
    if (!used_[slot]) free_.push_back(static_cast<int32_t>(slot));
}

void StatePool::take(int64_t count, int32_t* handles) {
  const int64_t missing = count - static_cast<int64_t>(free_.size());
  if (missing > 0) grow(std::max(slots() + missing, 2 * slots()));
  for (int64_t i = 0; i < count; ++i) {
    handles[i] = free_.back();
    free_.pop_back();
    used_[handles[i]] = 1;
  }
}

void StatePool::retain(const int32_t* handles, int64_t count) {
  std::fill(used_.begin(), used_.end(), 0);
  for (int64_t i = 0; i < count; ++i) used_[handles[i]] = 1;
  list_free();
}

void StatePool::check(const int32_t* handles, int64_t count) const {
  for (int64_t i = 0; i < count; ++i)
    if (!holds(handles[i]))
      throw std::invalid_argument("state " + std::to_string(i) + " is " + std::to_string(handles[i]) +
                                  "; it must be a handle from admit or step that retain has kept.");
}

int64_t StatePool::gather(const int32_t* handles, int64_t rows, Buffer& states, int32_t* parent) {
  states.reserve(rows * width_);
  int32_t count = 0;
  for (int64_t row = 0; row < rows; ++row) {
    int32_t& index = gathered_[handles[row]];
    if (index < 0) {
      std::copy_n(at(handles[row]), width_, states.get() + count * width_);
      index = count++;
    }
    parent[row] = index;
  }
  for (int64_t row = 0; row < rows; ++row) gathered_[handles[row]] = -1;
  return count;
}

}  // namespace sharpbeam
