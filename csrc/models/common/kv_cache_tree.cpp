#include "models/common/kv_cache_tree.h"

#include <algorithm>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>

namespace sharpbeam {

int32_t KvCacheTree::allocate() {
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

void KvCacheTree::begin(int64_t count, int32_t* handles) {
  for (int64_t i = 0; i < count; ++i) {
    handles[i] = allocate();
    std::fill_n(at(handles[i]), width_, 0.0f);
  }
}

void KvCacheTree::extend(const int32_t* parents, int64_t count, int32_t* handles) {
  for (int64_t i = 0; i < count; ++i) {
    const int32_t parent = parents[i], state = allocate();  // `handles` may be `parents`
    nodes_[state].length = nodes_[parent].length + 1;
    if (linked_) {
      nodes_[state].parent = parent;
      ++nodes_[parent].children;
    }
    handles[i] = state;
  }
}

void KvCacheTree::release(int32_t state) {
  while (state >= 0 && !nodes_[state].held && nodes_[state].children == 0) {
    const int32_t parent = nodes_[state].parent;
    free_.push_back(state);
    if (parent >= 0) --nodes_[parent].children;
    state = parent;
  }
}

void KvCacheTree::retain(const int32_t* handles, int64_t count) {
  ++retain_calls_;
  for (int64_t i = 0; i < count; ++i) nodes_[handles[i]].retained_by = retain_calls_;
  size_t kept = 0;
  for (const int32_t state : held_) {
    if (nodes_[state].retained_by == retain_calls_) {
      held_[kept++] = state;
      continue;
    }
    nodes_[state].held = false;
    release(state);
  }
  held_.resize(kept);
}

void KvCacheTree::check(const int32_t* handles, int64_t count) const {
  const auto size = static_cast<int64_t>(nodes_.size());
  for (int64_t i = 0; i < count; ++i)
    if (handles[i] < 0 || handles[i] >= size || !nodes_[handles[i]].held)
      throw std::invalid_argument("state " + std::to_string(i) + " is " + std::to_string(handles[i]) +
                                  "; it must be a handle from admit or step that retain has kept.");
}

void KvCacheTree::path(int32_t state, const float** floats) {
  for (int64_t i = nodes_[state].length - 1; i >= 0; --i, state = nodes_[state].parent) floats[i] = at(state);
}

}  // namespace sharpbeam
