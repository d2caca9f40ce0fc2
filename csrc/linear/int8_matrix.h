// A packed matrix of bytes, a scale for each output.
#pragma once

#include <cstdint>

#include "core/buffer.h"
#include "kernels/table.h"

namespace sharpbeam {

// A row of words as bytes: what they are multiplied by, and the Euclidean norm of what rounding lost.
struct QuantizedRow {
  float scale;
  double lost;
};

// Rounds `w` [n] to whole multiples of its largest size / 127, and writes each multiple + 128 to `bytes` [n].
template <typename Number>
QuantizedRow quantize_row(const Number* w, int64_t n, uint8_t* bytes);

class Int8Matrix {
 public:
  Int8Matrix() = default;
  // All zero. Throws std::invalid_argument where `in` is more than kMaxInt8Depth.
  Int8Matrix(int64_t out, int64_t in);

  // Rounds `w` [in], floats or doubles, as quantize_row does. Gives back the Euclidean norm of what that loses.
  template <typename Number>
  double set_row(int64_t row, const Number* w);

  // y = bias + x_scale * (scale * (x W')), x [rows, x_stride] bytes. `bias` is [out].
  void matmul(const Kernels& table, const float* bias, const int8_t* x, int64_t x_stride, const float* x_scale,
              float* y, int64_t y_stride, int64_t rows) const;
  // The same for the outputs `first`, a multiple of kPanel, to first + out - 1; `bias` is theirs.
  void matmul_panels(const Kernels& table, int64_t first, int64_t out, const float* bias, const int8_t* x,
                     int64_t x_stride, const float* x_scale, float* y, int64_t y_stride, int64_t rows) const;

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

 private:
  Buffer packed_;  // bytes, not floats
  Buffer scale_;
  int64_t in_ = 0, out_ = 0;
};

}  // namespace sharpbeam
