// A screen as it comes: what was fitted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sharpbeam {

// What picks the candidates, as arrays that the caller keeps during construction.
struct ScreenView {
  const float* weight;   // [clusters, dim]
  const float* bias;     // [clusters]
  const int32_t* start;  // [clusters + 1]: the words of cluster t are token[start[t]] to token[start[t + 1] - 1]
  const int32_t* token;  // [start[clusters]], ascending within a cluster
  int64_t clusters;
  // What all words outside the set weigh is the sum of exp(tail . hidden + tail_bias) over `pieces`: it completes the
  // normaliser. Null: the words outside have probability zero.
  const float* tail;       // [clusters, pieces, dim]
  const float* tail_bias;  // [clusters, pieces]
  int64_t pieces;
  // A row is doubtful where not (bar - by_tail * tail - by_far * |hidden - center| >= offset), bar being the larger of
  // the doubt_k-th best logit and the best one - margin, and tail the log of what the words outside weigh; and where
  // not (tail - log normaliser <= loosest). No row is where doubt_k is 0. Needs a tail.
  const float* center;  // [clusters, dim], or null where doubt_k is 0
  int64_t doubt_k;
  float margin, by_tail, by_far, offset, loosest;
};

// Throws std::invalid_argument for no clusters, an empty one, ids that do not ascend from 0 to vocab - 1, a doubt_k
// outside 0 to vocab or without a tail, and a tail of no pieces.
void check_screen(const ScreenView& screen, int64_t vocab);

// Where each word stands in the sets, which lie one behind the other.
class WordPlaces {
 public:
  WordPlaces(const ScreenView& screen, int64_t vocab);

  // Places of a word in `token`, ascending.
  std::span<const int32_t> of(int64_t word) const { return {at_.data() + begin_[word], at_.data() + begin_[word + 1]}; }
  int32_t cluster(int32_t at) const { return cluster_[at]; }

 private:
  std::vector<int32_t> begin_;    // [vocab + 1] of each word in `at_`
  std::vector<int32_t> at_;       // [start[clusters]] word by word
  std::vector<int32_t> cluster_;  // [start[clusters]] of each place
};

}  // namespace sharpbeam
