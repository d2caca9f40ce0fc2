// int8 weights, packed: panels of 64 outputs, four inputs side by side, stored as w + 128 (docs/internals/int8.md).
#pragma once

#include <cstdint>

#include "core/buffer.h"
#include "kernels/table.h"

namespace sharpbeam {

// The result of quantizing a row of weights: its scale, and the Euclidean norm of the quantization error.
struct QuantizedRow {
  float scale;
  double error;
};

// Quantizes `w` [n] with scale max |w| / 127, and writes round(w / scale) + 128 to `q` [n].
template <typename Number>
QuantizedRow quantize_row(const Number* w, int64_t n, uint8_t* q);

class Int8Matrix {
 public:
  Int8Matrix() = default;
  // All zero. Throws std::invalid_argument where `in` is more than kMaxInt8Depth.
  Int8Matrix(int64_t out, int64_t in);

  // Quantizes `w` [in], floats or doubles, as quantize_row does; returns the Euclidean norm of the quantization error.
  template <typename Number>
  double set_row(int64_t row, const Number* w);

  // y = bias + x_scale * (scale * (x W^T)) for quantized rows x [rows, x_stride]; `bias` is [out].
  void matmul(const Kernels& table, const float* bias, const int8_t* x, int64_t x_stride, const float* x_scale,
              float* y, int64_t y_stride, int64_t rows) const;
  // The same for the columns `first` (a multiple of kPanel) to first + out - 1; `bias` is that of `first`.
  void matmul_panels(const Kernels& table, int64_t first, int64_t out, const float* bias, const int8_t* x,
                     int64_t x_stride, const float* x_scale, float* y, int64_t y_stride, int64_t rows) const;

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

 private:
  Buffer packed_;  // uint8_t, not floats
  Buffer scale_;
  int64_t in_ = 0, out_ = 0;
};

}  // namespace sharpbeam
