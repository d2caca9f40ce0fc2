#include "output/int8_bounds.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sharpbeam {
namespace {

constexpr double kUnit = 0x1p-24;                // u
constexpr double kUp = 1.0 + 0x1p-20;            // what bounds are widened by
constexpr double kBiasShare = 256.0;             // A a pays for g |b|
constexpr double kSmall = 1e-20, kLarge = 1e12;  // sizes of hidden vectors that have a bound

constexpr int64_t kChains = 8;  // independent sums: one alone waits for itself

double sum(const double (&sums)[kChains]) { return std::accumulate(sums, sums + kChains, 0.0); }
double root(const double (&squares)[kChains]) { return std::sqrt(sum(squares)); }

}  // namespace

float widened(double x) { return above(x * kUp); }

Int8Hidden quantize_hidden(const Kernels& table, const float* hidden, const double* mean, int64_t dim, int64_t padded,
                           float trust, int8_t* int8) {
  Int8Hidden row{};
  row.scale = table.quantize_int8(hidden, dim, int8);
  std::fill(int8 + dim, int8 + padded, int8_t{0});
  double square[kChains] = {}, lost_square[kChains] = {}, near_square[kChains] = {}, error[kChains] = {};
  const auto take = [&](int64_t k, int64_t c) {
    const double x = hidden[k], near = static_cast<double>(row.scale) * int8[k];
    square[c] += x * x;
    lost_square[c] += (x - near) * (x - near);
    near_square[c] += near * near;
    error[c] += (near - x) * mean[k];
  };
  int64_t k = 0;
  for (; k + kChains <= dim; k += kChains)
    for (int64_t c = 0; c < kChains; ++c) take(k + c, c);
  for (; k < dim; ++k) take(k, 0);
  const double size = root(square), lost = root(lost_square), near_size = root(near_square);
  row.sound = size == 0.0 || (size > kSmall && size < kLarge);
  const double steps = static_cast<double>(dim) * kUnit;
  const double chain = steps / (1.0 - steps);  // g
  const double by_norm = std::max(lost + chain * size + 5.0 * kUnit * near_size, kBiasShare * (chain + 5.0 * kUnit));
  row.by_norm = widened(by_norm) * trust;
  row.by_lost = widened((1.0 + 6.0 * kUnit) * near_size) * trust;
  row.mean_error = sum(error);
  return row;
}

float norm_of(const OutputMatrix& matrix, int64_t token) {
  return widened(matrix.norm(matrix.row(token)) + std::fabs(static_cast<double>(matrix.bias()[token])) / kBiasShare);
}

}  // namespace sharpbeam
