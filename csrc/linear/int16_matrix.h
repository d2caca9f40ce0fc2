// A packed int16 matrix with a scale for each output column (kernels/table.h describes panels).
#pragma once

#include <cstdint>

#include "core/buffer.h"
#include "kernels/table.h"

namespace sharpbeam {

class Int16Matrix {
 public:
  Int16Matrix() = default;
  // All zero. Throws std::invalid_argument where `in` is more than kMaxInt8Depth.
  Int16Matrix(int64_t out, int64_t in);

  // Quantizes `w` [in] with the smallest scale at which no sum over inputs of kMaxInt16Input overflows 32 bits.
  // (SHARP 4.1 has one scale for all weights, clipped to [-1, 1].)
  void set_row(int64_t row, const float* w);

  // y = bias + x_scale * (scale * (x W^T)) for quantized rows x [rows, x_stride]; `bias` is [out].
  void matmul(const Kernels& table, const float* bias, const int16_t* x, int64_t x_stride, const float* x_scale,
              float* y, int64_t y_stride, int64_t rows) const;

 private:
  Buffer packed_;  // int16_t, not floats
  Buffer scale_;
  int64_t in_ = 0, out_ = 0;
};

}  // namespace sharpbeam
