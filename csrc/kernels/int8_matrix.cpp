#include "kernels/int8_matrix.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "kernels/panels.h"

namespace quickbeam {
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

double Int8Matrix::set_row(int64_t row, const double* w) {
  uint8_t* panel = reinterpret_cast<uint8_t*>(packed_.get()) + row / kPanel * kPanel * padded_bytes(in_);
  const ByteRow rounded = round_row(w, in_, [&](int64_t k, uint8_t byte) {
    panel[(k / kBytes * kPanel + row % kPanel) * kBytes + k % kBytes] = byte;
  });
  scale_.get()[row] = rounded.scale;
  return rounded.lost;
}

void Int8Matrix::multiply(const Kernels& table, const float* bias, const int8_t* x, int64_t x_stride,
                          const float* x_scale, float* y, int64_t y_stride, int64_t rows) const {
  share_panels(out_, padded_bytes(in_), rows, [&](int64_t first, int64_t out) {
    multiply_part(table, first, out, bias + first, x, x_stride, x_scale, y + first, y_stride, rows);
  });
}

void Int8Matrix::multiply_part(const Kernels& table, int64_t first, int64_t out, const float* bias, const int8_t* x,
                               int64_t x_stride, const float* x_scale, float* y, int64_t y_stride, int64_t rows) const {
  const uint8_t* packed = reinterpret_cast<const uint8_t*>(packed_.get()) + first * padded_bytes(in_);
  table.multiply_int8(packed, scale_.get() + first, bias, x, x_stride, x_scale, y, y_stride, rows, in_, out);
}

}  // namespace quickbeam
