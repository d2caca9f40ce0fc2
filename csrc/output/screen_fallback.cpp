#include "output/screen_fallback.h"

#include <algorithm>
#include <cmath>

namespace sharpbeam {

ResidualMass::ResidualMass(const ResidualView& view, int64_t clusters, int64_t dim) : dim_(dim) {
  if (view.weight == nullptr) return;
  components_ = view.components;
  std::copy_n(view.weight, clusters * components_ * dim, reserved(weight_, clusters * components_ * dim));
  std::copy_n(view.bias, clusters * components_, reserved(bias_, clusters * components_));
}

float ResidualMass::log_mass(const Kernels& table, const ScreenRow& row, int64_t size) const {
  if (components_ == 0) return kNever;
  float* logits = row.logits + size;
  const float* bias = bias_.get() + row.cluster * components_;
  table.dot_scores(row.hidden, weight_.get() + row.cluster * components_ * dim_, logits, components_, dim_);
  for (int64_t i = 0; i < components_; ++i) logits[i] += bias[i];
  return table.log_sum_exp(logits, components_);
}

FallbackTest::FallbackTest(const FallbackView& view, int64_t clusters, int64_t dim, const Kernels& table)
    : k_(view.k),
      dim_(dim),
      margin_(view.margin),
      mass_weight_(view.mass_weight),
      distance_weight_(view.distance_weight),
      threshold_(view.threshold),
      max_log_share_(view.max_log_share) {
  if (k_ == 0) return;
  std::copy_n(view.center, clusters * dim, reserved(center_, clusters * dim));
  center_square_.reserve(clusters);
  for (int64_t t = 0; t < clusters; ++t) {
    const float* center = center_.get() + t * dim;
    table.dot_scores(center, center, center_square_.get() + t, 1, dim);
  }
}

float FallbackTest::distance(const Kernels& table, const ScreenRow& row) const {
  float along;
  table.dot_scores(row.hidden, center_.get() + row.cluster * dim_, &along, 1, dim_);
  const float gap = row.square - 2.0f * along + center_square_.get()[row.cluster];
  return gap > 0.0f ? std::sqrt(gap) : 0.0f;
}

float FallbackTest::kth(const BestLogits& best) const { return best.count < k_ ? kNever : best.logit[k_ - 1]; }

bool FallbackTest::margin_fails(const Kernels& table, const ScreenRow& row, const BestLogits& best,
                                float log_mass) const {
  const float bar = std::max(kth(best), best.logit[0] - margin_);
  return !(bar - mass_weight_ * log_mass - distance_weight_ * distance(table, row) >= threshold_);
}

}  // namespace sharpbeam
