#include "models/common/path_pool.h"

#include <algorithm>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>

namespace sharpbeam {

int32_t PathPool::take() {
  if (free_.empty()) {
    const auto first = static_cast<int64_t>(nodes_.size());
    if (first + kPage > std::numeric_limits<int32_t>::max()) throw std::bad_alloc();  // a handle is an int32
    pages_.emplace_back(kPage * width_);
    nodes_.resize(first + kPage);
    if (nodes_.size() > free_.capacity()) {
      free_.reserve(2 * nodes_.size());
      held_.reserve(2 * nodes_.size());
    }
    for (int32_t i = kPage - 1; i >= 0; --i) free_.push_back(static_cast<int32_t>(first) + i);
  }
  const int32_t state = free_.back();
  free_.pop_back();
  nodes_[state] = Node{};
  nodes_[state].held = true;
  held_.push_back(state);
  return state;
}

void PathPool::begin(int64_t count, int32_t* handles) {
  for (int64_t i = 0; i < count; ++i) {
    handles[i] = take();
    std::fill_n(at(handles[i]), width_, 0.0f);
  }
}

void PathPool::extend(const int32_t* before, int64_t count, int32_t* handles) {
  for (int64_t i = 0; i < count; ++i) {
    const int32_t old = before[i], state = take();  // `handles` may be `before`
    nodes_[state].length = nodes_[old].length + 1;
    if (linked_) {
      nodes_[state].before = old;
      ++nodes_[old].needed;
    }
    handles[i] = state;
  }
}

void PathPool::release(int32_t state) {
  while (state >= 0 && !nodes_[state].held && nodes_[state].needed == 0) {
    const int32_t before = nodes_[state].before;
    free_.push_back(state);
    if (before >= 0) --nodes_[before].needed;
    state = before;
  }
}

void PathPool::retain(const int32_t* handles, int64_t count) {
  ++call_;
  for (int64_t i = 0; i < count; ++i) nodes_[handles[i]].seen = call_;
  size_t kept = 0;
  for (const int32_t state : held_) {
    if (nodes_[state].seen == call_) {
      held_[kept++] = state;
      continue;
    }
    nodes_[state].held = false;
    release(state);
  }
  held_.resize(kept);
}

void PathPool::check(const int32_t* handles, int64_t count) const {
  const auto size = static_cast<int64_t>(nodes_.size());
  for (int64_t i = 0; i < count; ++i)
    if (handles[i] < 0 || handles[i] >= size || !nodes_[handles[i]].held)
      throw std::invalid_argument("state " + std::to_string(i) + " is " + std::to_string(handles[i]) +
                                  "; it must be a handle from admit or step that retain has kept.");
}

void PathPool::path(int32_t state, const float** floats) {
  for (int64_t i = nodes_[state].length - 1; i >= 0; --i, state = nodes_[state].before) floats[i] = at(state);
}

}  // namespace sharpbeam
