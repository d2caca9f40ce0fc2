// A fitted screen, as arrays that the caller keeps during construction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sharpbeam {

// The mass of the tokens outside a cluster's set: the sum of exp(weight . hidden + bias) over `components`. It
// completes the normalizer. Without (weight null), tokens outside have probability zero.
struct ResidualView {
  const float* weight;  // [clusters, components, dim]
  const float* bias;    // [clusters, components]
  int64_t components;
};

// Which rows fall back to another layer (csrc/output/screen_fallback.h). No row does where k is 0. Needs a residual
// mass.
struct FallbackView {
  const float* center;  // [clusters, dim], null where k is 0
  int64_t k;
  float margin, mass_weight, distance_weight, threshold, max_log_share;
};

struct ScreenView {
  const float* weight;   // [clusters, dim]
  const float* bias;     // [clusters]
  const int32_t* start;  // [clusters + 1]: the set of cluster t is token[start[t]] to token[start[t + 1] - 1]
  const int32_t* token;  // [start[clusters]], ascending within a set
  int64_t clusters;
  ResidualView residual;
  FallbackView fallback;
};

// Throws std::invalid_argument for no clusters, an empty set, ids that do not ascend from 0 to vocab - 1, a fallback
// test with a k outside 0 to vocab or without a residual mass, and a residual mass of no components.
void check_screen(const ScreenView& screen, int64_t vocab);

// Where each token stands in the sets, which lie one after the other.
class TokenPlaces {
 public:
  TokenPlaces(const ScreenView& screen, int64_t vocab);

  // Places of `token` in ScreenView::token, ascending.
  std::span<const int32_t> of(int64_t token) const {
    return {place_.data() + begin_[token], place_.data() + begin_[token + 1]};
  }
  int32_t cluster(int32_t place) const { return cluster_[place]; }

 private:
  std::vector<int32_t> begin_;    // [vocab + 1] of each token in `place_`
  std::vector<int32_t> place_;    // [start[clusters]] token by token
  std::vector<int32_t> cluster_;  // [start[clusters]] of each place
};

}  // namespace sharpbeam
