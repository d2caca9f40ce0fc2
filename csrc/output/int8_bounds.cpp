#include "output/int8_bounds.h"

#include <algorithm>
#include <cmath>

namespace sharpbeam {
namespace {

constexpr double kUnit = 0x1p-24;                // u
constexpr double kUp = 1.0 + 0x1p-20;            // what bounds are widened by
constexpr double kBiasShare = 256.0;             // A a pays for g |b|
constexpr double kSmall = 1e-20, kLarge = 1e12;  // sizes of hidden vectors that have a bound

}  // namespace

float widened(double x) { return above(x * kUp); }

Int8Hidden quantize_hidden(const Kernels& table, const float* hidden, int64_t dim, int64_t padded, float trust,
                           int8_t* int8) {
  Int8Hidden row{};
  row.scale = table.quantize_int8(hidden, dim, int8);
  std::fill(int8 + dim, int8 + padded, int8_t{0});
  double square = 0.0, lost_square = 0.0, near_square = 0.0;
  for (int64_t k = 0; k < dim; ++k) {
    const double x = hidden[k], near = static_cast<double>(row.scale) * int8[k];
    square += x * x;
    lost_square += (x - near) * (x - near);
    near_square += near * near;
  }
  const double size = std::sqrt(square), lost = std::sqrt(lost_square), near_size = std::sqrt(near_square);
  row.sound = size == 0.0 || (size > kSmall && size < kLarge);
  const double steps = static_cast<double>(dim) * kUnit;
  const double chain = steps / (1.0 - steps);  // g
  const double by_norm = std::max(lost + chain * size + 5.0 * kUnit * near_size, kBiasShare * (chain + 5.0 * kUnit));
  row.by_norm = widened(by_norm) * trust;
  row.by_lost = widened((1.0 + 6.0 * kUnit) * near_size) * trust;
  return row;
}

float norm_of(const OutputMatrix& matrix, int64_t token) {
  return widened(matrix.norm(matrix.row(token)) + std::fabs(static_cast<double>(matrix.bias()[token])) / kBiasShare);
}

}  // namespace sharpbeam
