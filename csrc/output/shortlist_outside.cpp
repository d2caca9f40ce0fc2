#include "output/shortlist_outside.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace sharpbeam {
namespace {

constexpr float kLeast = -3.0f, kMost = 4.0f;  // log deviation: rows that the fit has not seen stay in its range

Float32Matrix checked(const ShortlistTestView& view, int64_t dim) {
  if (view.units < 1) throw std::invalid_argument("the test has no units; it must have 1 or more");
  return {view.inner, view.units, dim, dim, view.bias};
}

}  // namespace

ShortlistTest::ShortlistTest(const ShortlistTestView& view, int64_t dim)
    : inner_(checked(view, dim)),
      outer_(view.outer, view.outer + 2 * view.units),
      direct_(view.direct, view.direct + 6),
      threshold_(view.threshold),
      most_share_(view.most_share) {}

ShortlistTest::Outside ShortlistTest::predict(const float* hidden_units, float best, float log_mass) const {
  const int64_t count = units();
  float found[2];
  for (int64_t j = 0; j < 2; ++j) {
    const float *outer = outer_.data() + j * count, *direct = direct_.data() + 3 * j;
    // In double precision and in one order, so that every compiler and kernel table gives the same.
    double sum = static_cast<double>(direct[0]) * best + static_cast<double>(direct[1]) * log_mass + direct[2];
    for (int64_t i = 0; i < count; ++i) {
      const float unit = hidden_units[i] < 0.0f ? 0.0f : hidden_units[i];  // NaN stays
      sum += static_cast<double>(outer[i]) * unit;
    }
    found[j] = static_cast<float>(sum);
  }
  return {found[0], std::exp(std::clamp(found[1], kLeast, kMost))};
}

float ShortlistTest::log_total(const Outside& outside, float log_mass) const {
  const float odds = std::exp(outside.mean - log_mass);
  if (!(odds <= most_share_ * (1.0f + odds))) return std::numeric_limits<float>::quiet_NaN();
  return log_mass + std::log1p(odds);
}

}  // namespace sharpbeam
