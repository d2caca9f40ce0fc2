// A packed float32 matrix with its bias, shared by all decoding runs (kernels/table.h describes panels).
#pragma once

#include <cstdint>

#include "core/buffer.h"
#include "kernels/table.h"

namespace sharpbeam {

class Float32Matrix {
 public:
  Float32Matrix() = default;
  // `weight` is [out, in] row-major with rows `stride` floats apart (stride >= in: a range of columns can be packed);
  // `bias` is [out] or null.
  Float32Matrix(const float* weight, int64_t out, int64_t in, int64_t stride, const float* bias);

  // y = x W^T + b for `rows` rows.
  void matmul(const Kernels& table, const float* x, int64_t x_stride, float* y, int64_t y_stride, int64_t rows) const;

  // One element of y for one row x, computed from one panel: the bits of matmul.
  float element(const Kernels& table, const float* x, int64_t column) const;

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

 private:
  Buffer packed_;
  Buffer bias_;  // empty without a bias
  int64_t in_ = 0, out_ = 0;
};

}  // namespace sharpbeam
