#include "output/int8_bounds.h"

#include <algorithm>
#include <cmath>

#include "linear/int8_matrix.h"

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

Int8Rows::Int8Rows(const OutputMatrix& matrix)
    : token_(static_cast<size_t>(matrix.vocab())), stride_(round_up(matrix.dim(), kRowAlignment)) {
  int8_.reserve(matrix.vocab() * stride_ / static_cast<int64_t>(sizeof(float)));
  uint8_t* numbers = reinterpret_cast<uint8_t*>(int8_.get());
  std::fill_n(numbers, matrix.vocab() * stride_, uint8_t{128});
  matrix.read([&](int64_t token) {
    const QuantizedRow row = quantize_row(matrix.row(token), matrix.dim(), numbers + token * stride_);
    token_[static_cast<size_t>(token)] = {row.scale, matrix.bias()[token], norm_of(matrix, token), widened(row.error)};
  });
}

void Int8Rows::logits(const Kernels& table, const int8_t* int8, const Int8Hidden& hidden, const int32_t* tokens,
                      int64_t count, float* near, float* slack) const {
  constexpr int64_t kSome = 64;
  int32_t sums[kSome];
  for (int64_t first = 0; first < count; first += kSome) {
    const int64_t some = std::min(kSome, count - first);
    table.gather_dot_int8(reinterpret_cast<const uint8_t*>(int8_.get()), stride_, int8, tokens + first, some, sums);
    for (int64_t i = 0; i < some; ++i) {
      const Token& token = token_[static_cast<size_t>(tokens[first + i])];
      near[first + i] = token.bias + hidden.scale * (token.scale * static_cast<float>(sums[i]));
      slack[first + i] = hidden.by_norm * token.norm + hidden.by_lost * token.lost;
    }
  }
}

}  // namespace sharpbeam
