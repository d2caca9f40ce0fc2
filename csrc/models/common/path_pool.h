// States that are paths: each holds what its last word added, and the state that the word was fed to. So siblings
// share all that is before them, and nothing is copied when a beam is reordered.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"

namespace sharpbeam {

class PathPool {
 public:
  // `width` floats for each state; where they are not `linked`, a state needs none of those before it.
  PathPool(int64_t width, bool linked) : width_(width), linked_(linked) {}

  // Handles of `count` fresh states of no words, whose floats are zero.
  void begin(int64_t count, int32_t* handles);
  // Handles of fresh states of one word more than each of `before`, which must be in use. Memory grows by pages that
  // never move.
  void extend(const int32_t* before, int64_t count, int32_t* handles);
  // Lets go of every state but the named ones (repeats allowed), which must be in use. A state that another one needs
  // stays, but can no longer be named.
  void retain(const int32_t* handles, int64_t count);

  // Throws std::invalid_argument unless every handle is in use.
  void check(const int32_t* handles, int64_t count) const;

  float* at(int32_t state) { return pages_[state / kPage].get() + (state % kPage) * width_; }
  // How many words were fed.
  int64_t length(int32_t state) const { return nodes_[state].length; }
  // The floats of all words of a state, the first one first: `length` of them. Linked states only.
  void path(int32_t state, const float** floats);

 private:
  static constexpr int32_t kPage = 64;  // states

  struct Node {
    int32_t before = -1;  // the state that the last word was fed to
    int32_t length = 0;
    int32_t needed = 0;  // by how many states of one word more
    bool held = false;   // whether it may be named
    uint32_t seen = 0;   // the last call of `retain` that named it
  };

  int32_t take();
  void release(int32_t state);

  int64_t width_;
  bool linked_;
  uint32_t call_ = 0;  // of `retain`
  std::vector<Buffer> pages_;
  std::vector<Node> nodes_;
  std::vector<int32_t> free_, held_;
};

}  // namespace sharpbeam
