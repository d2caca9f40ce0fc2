// The KV cache of a decoding run, as a tree. A state is a node: it holds the keys and values that its last token added,
// and a link to the state before that token. So hypotheses share the cache of their common prefix, and reordering a
// beam copies nothing.
//
// In a step, `extend` makes a node for each row. Each decoder layer writes the row's key and value, side by side, to
// its part of the node's floats, [layers, 2, heads * width of a head], and attends to the nodes of `path`, which
// collects the addresses from the last token to the first. After the search has chosen the rows that live on, `retain`
// drops the others: a node without handle and without children is free, and so are its ancestors that only it needed.
// Keys and values of the source, which no step changes, are kept once for each request until it leaves:
// models/transformer/decoder.cpp, whose `step` writes and reads both caches. On a GPU: src/sharpbeam/gpu/pools.py.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"

namespace sharpbeam {

class KvCacheTree {
 public:
  // Each state has `width` floats, those of all layers. Without links (`linked` false) each state is complete in
  // itself, as that of an SSRU decoder, and its predecessors can be freed.
  KvCacheTree(int64_t width, bool linked) : width_(width), linked_(linked) {}

  // Creates `count` states without a token, whose floats are zero; writes their handles.
  void begin(int64_t count, int32_t* handles);
  // Creates a state for each of `parents` (in use), one token longer; writes their handles, `handles` may be `parents`.
  // Memory grows by pages that never move.
  void extend(const int32_t* parents, int64_t count, int32_t* handles);
  // Drops every handle but the given ones (in use, repeats allowed). The state of a dropped handle stays in memory for
  // as long as a longer state needs it.
  void retain(const int32_t* handles, int64_t count);

  // Throws std::invalid_argument unless every handle is in use.
  void check(const int32_t* handles, int64_t count) const;

  float* at(int32_t state) { return pages_[state / kPage].get() + (state % kPage) * width_; }
  // How many tokens a state has.
  int64_t length(int32_t state) const { return nodes_[state].length; }
  // Writes the addresses of the floats of all tokens of a state, the first token first: `length` of them. Linked only.
  void path(int32_t state, const float** floats);

 private:
  static constexpr int32_t kPage = 64;  // states

  struct Node {
    int32_t parent = -1;  // the state before the last token
    int32_t length = 0;
    int32_t children = 0;
    bool held = false;         // whether its handle is in use
    uint32_t retained_by = 0;  // the last call of `retain` that named it
  };

  int32_t allocate();
  void release(int32_t state);

  int64_t width_;
  bool linked_;
  uint32_t retain_calls_ = 0;
  std::vector<Buffer> pages_;
  std::vector<Node> nodes_;
  std::vector<int32_t> free_, held_;
};

}  // namespace sharpbeam
