// Rows of 4-bit weights: how one is quantized, and all of a matrix side by side, for the low-bit preview.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "kernels/table.h"

namespace sharpbeam {

struct Int4Row {
  double scale;
  double error;  // Euclidean norm of (w - scale q) / balance
};

// Quantizes `w` [n] to multiples q [n] of a scale, -8 <= q <= 7: the one of some scales with the least error. `balance`
// [n] is positive.
Int4Row quantize_int4(const double* w, const double* balance, int64_t n, int8_t* q);

// Rows of `in` weights that one gather_dot_int4 reads at a time.
class Int4Rows {
 public:
  Int4Rows() = default;
  // `rows` rows, all weights zero.
  Int4Rows(int64_t rows, int64_t in);

  // Quantizes `w` [in].
  Int4Row set_row(int64_t row, const double* w, const double* balance);

  // The inputs that a call reads: `in`, rounded up.
  int64_t padded() const { return 2 * stride_; }
  // The inner product of each of the `rows` [count] with x [padded], without its scale, into `sums` [count].
  void dot(const Kernels& table, const int8_t* x, const int32_t* rows, int64_t count, int32_t* sums) const;

 private:
  Buffer packed_;  // bytes, not floats
  int64_t in_ = 0, stride_ = 0;
};

}  // namespace sharpbeam
