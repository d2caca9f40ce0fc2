// The tokens outside a row's set as a screen sees them: their mass, and whether the row should fall back to a layer
// that scores all tokens.
//
// A row is uncertain where its set may lack a token that matters (margin test), or where its normalizer may be wrong
// (mass test). With `log_mass` the log of the residual mass and `distance` that of the hidden vector to the center of
// its cluster, it is certain where
//
//   max(k-th best logit, best logit - margin) - mass_weight * log_mass - distance_weight * distance >= threshold,
//   log_mass - log normalizer <= max_log_share.
//
// The left side of the first is the lowest logit that matters less what tokens outside may reach: they may score higher
// the more mass they have, and the farther the row is from those that the set was made from. What is wrong in the mass
// is wrong in the normalizer by the share of the tokens outside. NaN fails both.
#pragma once

#include <cstdint>

#include "core/buffer.h"
#include "kernels/table.h"
#include "output/screen_sets.h"
#include "output/screen_view.h"

namespace sharpbeam {

// The best logits of a row's set, largest first.
struct BestLogits {
  float* logit;
  int32_t* place;  // in the set
  int64_t count;
};

class ResidualMass {
 public:
  ResidualMass() = default;
  ResidualMass(const ResidualView& view, int64_t clusters, int64_t dim);

  int64_t components() const { return components_; }  // 0: tokens outside have probability zero
  // The log of the mass of the tokens outside the row's set, -inf without components. The logits of the components are
  // put after those of the set, of `size` tokens.
  float log_mass(const Kernels& table, const ScreenRow& row, int64_t size) const;

 private:
  Buffer weight_, bias_;  // [clusters, components, dim], [clusters, components]
  int64_t components_ = 0, dim_ = 0;
};

class FallbackTest {
 public:
  FallbackTest() = default;
  FallbackTest(const FallbackView& view, int64_t clusters, int64_t dim, const Kernels& table);

  int64_t k() const { return k_; }  // 0: no row is uncertain
  // The distance of a row, whose `square` is there, to the center of its cluster.
  float distance(const Kernels& table, const ScreenRow& row) const;
  // The k-th best logit, -inf where there are fewer.
  float kth(const BestLogits& best) const;
  bool margin_fails(const Kernels& table, const ScreenRow& row, const BestLogits& best, float log_mass) const;
  bool mass_fails(float log_mass, float log_total) const { return !(log_mass - log_total <= max_log_share_); }

 private:
  Buffer center_, center_square_;  // [clusters, dim], and |center|^2 [clusters]
  int64_t k_ = 0, dim_ = 0;
  float margin_ = 0.0f, mass_weight_ = 0.0f, distance_weight_ = 0.0f, threshold_ = 0.0f, max_log_share_ = 0.0f;
};

}  // namespace sharpbeam
