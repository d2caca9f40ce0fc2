#include "linear/int4_row.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace sharpbeam {
namespace {

constexpr double kTiny = 1e-20;
constexpr int64_t kHalf = kRowAlignment;  // numbers in the low nibbles of as many bytes

// To the nearest whole number, by adding and taking away one whose last bit is 1: no call of the C library.
double rounded(double w, double by) {
  constexpr double kWhole = 0x1.8p52;
  return std::min(7.0, std::max(-8.0, w * by)) + kWhole - kWhole;
}

double squared_error(const double* w, const double* balance, int64_t n, double scale) {
  const double by = 1.0 / scale;
  double square = 0.0;
  for (int64_t k = 0; k < n; ++k) {
    const double lost = (w[k] - rounded(w[k], by) * scale) / balance[k];
    square += lost * lost;
  }
  return square;
}

}  // namespace

Int4Row quantize_int4(const double* w, const double* balance, int64_t n, int8_t* q) {
  double most = 0.0, scale = 0.0, least = std::numeric_limits<double>::infinity();
  for (int64_t k = 0; k < n; ++k) most = std::fabs(w[k]) > std::fabs(most) ? w[k] : most;
  if (std::fabs(most) < kTiny) {
    std::fill_n(q, n, int8_t{0});
    double square = 0.0;
    for (int64_t k = 0; k < n; ++k) square += w[k] / balance[k] * (w[k] / balance[k]);
    return {0.0, std::sqrt(square)};
  }
  // The largest weight is -8 or a little beyond: clipping it makes the steps of all others smaller.
  for (const double share : {1.0, 0.92, 0.84, 0.76, 0.68, 0.6}) {
    const double choice = static_cast<double>(static_cast<float>(-most * share / 8.0));
    const double square = squared_error(w, balance, n, choice);
    if (square < least) scale = choice, least = square;
  }
  for (int64_t k = 0; k < n; ++k) q[k] = static_cast<int8_t>(rounded(w[k], 1.0 / scale));
  return {scale, std::sqrt(least)};
}

Int4Rows::Int4Rows(int64_t rows, int64_t in) : in_(in), stride_(round_up((in + 1) / 2, kRowAlignment)) {
  packed_.reserve(rows * stride_ / static_cast<int64_t>(sizeof(float)));
  if (rows * stride_ > 0) std::memset(packed_.get(), 0x88, static_cast<size_t>(rows * stride_));
}

Int4Row Int4Rows::set_row(int64_t row, const double* w, const double* balance) {
  std::vector<int8_t> q(static_cast<size_t>(in_));
  const Int4Row found = quantize_int4(w, balance, in_, q.data());
  uint8_t* to = reinterpret_cast<uint8_t*>(packed_.get()) + row * stride_;
  for (int64_t k = 0; k < in_; ++k) {
    const auto nibble = static_cast<uint8_t>(q[static_cast<size_t>(k)] + 8);
    uint8_t& byte = to[k / (2 * kHalf) * kHalf + k % kHalf];
    byte = k % (2 * kHalf) < kHalf ? static_cast<uint8_t>((byte & 0xf0) | nibble)
                                   : static_cast<uint8_t>((byte & 0x0f) | (nibble << 4));
  }
  return found;
}

void Int4Rows::dot(const Kernels& table, const int8_t* x, const int32_t* rows, int64_t count, int32_t* sums) const {
  if (stride_ == 0) return void(std::fill_n(sums, count, 0));
  table.gather_dot_int4(reinterpret_cast<const uint8_t*>(packed_.get()), stride_, x, rows, count, sums);
}

}  // namespace sharpbeam
