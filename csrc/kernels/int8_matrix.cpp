#include "kernels/int8_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

namespace quickbeam {
namespace {

constexpr double kTiny = 1e-20;  // a row with nothing larger is taken as zero: its scale would be no normal number

}  // namespace

Int8Matrix::Int8Matrix(int64_t out, int64_t in) : in_(in), out_(out) {
  if (in > kMostInt8) {
    throw std::invalid_argument("the width is " + std::to_string(in) + "; int8 products need at most " +
                                std::to_string(kMostInt8));
  }
  const int64_t bytes = packed_size(padded_bytes(in), out);
  packed_.reserve(bytes / static_cast<int64_t>(sizeof(float)));
  std::memset(packed_.get(), 128, static_cast<size_t>(bytes));
  scale_.reserve(out);
  std::fill_n(scale_.get(), out, 0.0f);
}

double Int8Matrix::set_row(int64_t row, const double* w, double* lost) {
  uint8_t* panel = reinterpret_cast<uint8_t*>(packed_.get()) + row / kPanel * kPanel * padded_bytes(in_);
  double most = 0.0;
  for (int64_t k = 0; k < in_; ++k) most = std::max(most, std::fabs(w[k]));
  const float scale = most < kTiny ? 0.0f : static_cast<float>(most / 127.0);
  scale_.get()[row] = scale;
  double square = 0.0;
  for (int64_t k = 0; k < in_; ++k) {
    const double whole = scale == 0.0f ? 0.0 : std::clamp(std::nearbyint(w[k] / scale), -127.0, 127.0);
    panel[(k / kBytes * kPanel + row % kPanel) * kBytes + k % kBytes] = static_cast<uint8_t>(whole + 128.0);
    const double loss = w[k] - whole * scale;
    if (lost != nullptr) lost[k] = loss;
    square += loss * loss;
  }
  return std::sqrt(square);
}

void Int8Matrix::multiply(const Kernels& table, const float* bias, const int8_t* x, int64_t x_stride,
                          const float* x_scale, float* y, int64_t y_stride, int64_t rows) const {
  multiply_part(table, 0, out_, bias, x, x_stride, x_scale, y, y_stride, rows);
}

void Int8Matrix::multiply_part(const Kernels& table, int64_t first, int64_t out, const float* bias, const int8_t* x,
                               int64_t x_stride, const float* x_scale, float* y, int64_t y_stride, int64_t rows) const {
  const uint8_t* packed = reinterpret_cast<const uint8_t*>(packed_.get()) + first * padded_bytes(in_);
  table.multiply_int8(packed, scale_.get() + first, bias, x, x_stride, x_scale, y, y_stride, rows, in_, out);
}

}  // namespace quickbeam
