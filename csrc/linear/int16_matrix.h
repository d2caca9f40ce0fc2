// A packed matrix of 16-bit numbers, a scale for each output.
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

  // Rounds `w` [in] to multiples of one scale: the finest with which no sum over inputs of kMaxInt16Input leaves 32
  // bits. (SHARP 4.1 has one scale for all weights, clipped to [-1, 1].)
  void set_row(int64_t row, const float* w);

  // y = bias + x_scale * (scale * (x W')), x [rows, x_stride] as Kernels::gemm_int16. `bias` is [out].
  void matmul(const Kernels& table, const float* bias, const int16_t* x, int64_t x_stride, const float* x_scale,
              float* y, int64_t y_stride, int64_t rows) const;

 private:
  Buffer packed_;  // 16-bit numbers, not floats
  Buffer scale_;
  int64_t in_ = 0, out_ = 0;
};

}  // namespace sharpbeam
