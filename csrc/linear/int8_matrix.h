// int8 weights W [out, in], quantized and packed once, when a model is loaded.
//
// `set_row` quantizes the weights of one output: q = round(w / scale), scale = max |w| / 127. It stores q + 128, as an
// unsigned byte, where the gemm reads it in one pass from front to back: 64 outputs are a panel; in a panel come inputs
// 0 to 3 of each of the 64, then inputs 4 to 7 of each, and so on. So weight (n, k) is byte
//
//   (n / 64) * 64 * padded + (k / 4) * 64 * 4 + (n % 64) * 4 + k % 4,   padded = `in` rounded up to 4,
//
// and padding is 128, which stands for zero. `matmul` takes rows of inputs that were quantized in the same way, and
// multiplies the exact whole sums by both scales. kernels/table.h has the picture, the arithmetic and the kernels.
// Used by linear/linear.h (compute type int8), output/scan.h and output/blocks.h.
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

 private:
  Buffer packed_;  // uint8_t, not floats
  Buffer scale_;
  int64_t in_ = 0, out_ = 0;
};

}  // namespace sharpbeam
