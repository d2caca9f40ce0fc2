#include "linear/int16_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "linear/panels.h"

namespace sharpbeam {

Int16Matrix::Int16Matrix(int64_t out, int64_t in) : in_(in), out_(out) {
  if (in > kMaxInt8Depth) {
    throw std::invalid_argument("the width is " + std::to_string(in) + "; int16 matmuls need at most " +
                                std::to_string(kMaxInt8Depth));
  }
  const int64_t numbers = packed_size(padded_int16(in), out);
  packed_.reserve(numbers / kInt16Group);
  std::memset(packed_.get(), 0, static_cast<size_t>(numbers) * sizeof(int16_t));
  scale_.reserve(out);
  std::fill_n(scale_.get(), out, 0.0f);
}

void Int16Matrix::set_row(int64_t row, const float* w) {
  constexpr double kTiny = 1e-20;  // a row of smaller weights counts as zero: its scale would be subnormal
  constexpr double kMaxSum = static_cast<double>(std::numeric_limits<int32_t>::max() / kMaxInt16Input);
  double most = 0.0, sum = 0.0;
  for (int64_t k = 0; k < in_; ++k) {
    most = std::max<double>(most, std::fabs(w[k]));
    sum += std::fabs(w[k]);
  }
  if (most < kTiny) return;
  // Rounding adds at most 1/2 to each absolute value, so that they sum to kMaxSum at most.
  const double multiples = std::min(32767.0, std::floor((kMaxSum - 0.5 * static_cast<double>(in_)) * most / sum));
  const float scale = static_cast<float>(most / multiples);
  int16_t* panel = reinterpret_cast<int16_t*>(packed_.get()) + row / kPanel * kPanel * padded_int16(in_);
  for (int64_t k = 0; k < in_; ++k) {
    const double whole = std::clamp(std::nearbyint(w[k] * (multiples / most)), -multiples, multiples);
    panel[(k / kInt16Group * kPanel + row % kPanel) * kInt16Group + k % kInt16Group] = static_cast<int16_t>(whole);
  }
  scale_.get()[row] = scale;
}

void Int16Matrix::matmul(const Kernels& table, const float* bias, const int16_t* x, int64_t x_stride,
                         const float* x_scale, float* y, int64_t y_stride, int64_t rows) const {
  const int16_t* packed = reinterpret_cast<const int16_t*>(packed_.get());
  const int64_t width = padded_int16(in_);
  parallel_panels(out_, width * static_cast<int64_t>(sizeof(int16_t)), rows, [&](int64_t first, int64_t out) {
    table.gemm_int16(packed + first * width, scale_.get() + first, bias + first, x, x_stride, x_scale, y + first,
                     y_stride, rows, in_, out);
  });
}

}  // namespace sharpbeam
