// A packed matrix of bytes, a scale for each output.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/buffer.h"
#include "kernels/table.h"

namespace quickbeam {

// A row of words as bytes: what they are multiplied by, and the Euclidean norm of what rounding lost.
struct ByteRow {
  float scale;
  double lost;
};

// Rounds `w` [n] to whole multiples of its largest size / 127, and calls put(k, multiple + 128) for each.
template <typename Put>
ByteRow round_row(const double* w, int64_t n, Put put) {
  constexpr double kTiny = 1e-20;  // a row with nothing larger is taken as zero: its scale would be no normal number
  double most = 0.0;
  for (int64_t k = 0; k < n; ++k) most = std::max(most, std::fabs(w[k]));
  const float scale = most < kTiny ? 0.0f : static_cast<float>(most / 127.0);
  double square = 0.0;
  for (int64_t k = 0; k < n; ++k) {
    const double whole = scale == 0.0f ? 0.0 : std::clamp(std::nearbyint(w[k] / scale), -127.0, 127.0);
    const double loss = w[k] - whole * scale;
    put(k, static_cast<uint8_t>(whole + 128.0));
    square += loss * loss;
  }
  return {scale, std::sqrt(square)};
}

class Int8Matrix {
 public:
  Int8Matrix() = default;
  // All zero. Throws std::invalid_argument where `in` is more than kMostInt8.
  Int8Matrix(int64_t out, int64_t in);

  // Rounds `w` [in] as round_row does. Gives back the Euclidean norm of what that loses.
  double set_row(int64_t row, const double* w);

  // y = bias + x_scale * (scale * (x W')), x [rows, x_stride] bytes. `bias` is [out].
  void multiply(const Kernels& table, const float* bias, const int8_t* x, int64_t x_stride, const float* x_scale,
                float* y, int64_t y_stride, int64_t rows) const;
  // The same for the outputs `first`, a multiple of kPanel, to first + out - 1; `bias` is theirs.
  void multiply_part(const Kernels& table, int64_t first, int64_t out, const float* bias, const int8_t* x,
                     int64_t x_stride, const float* x_scale, float* y, int64_t y_stride, int64_t rows) const;

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

 private:
  Buffer packed_;  // bytes, not floats
  Buffer scale_;
  int64_t in_ = 0, out_ = 0;
};

}  // namespace quickbeam
