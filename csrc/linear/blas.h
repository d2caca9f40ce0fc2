// Matmuls in float32 by a BLAS library that is loaded at run time, for comparisons only: the core is linked with none.
#pragma once

#include <cstdint>

#include "core/buffer.h"

namespace sharpbeam {

// cblas_sgemm: order, whether a and b are transposed, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc.
using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);

// cblas_sgemm (or scipy_cblas_sgemm) of a shared library, which stays loaded. Throws std::invalid_argument where
// it cannot be loaded; `name` is the caller's name for the library, for the message.
Sgemm load_sgemm(const char* name, const char* library);

// A matrix in row-major order [in, out], in which OpenBLAS is faster for few rows (bench/micro/gemm.py).
class BlasMatrix {
 public:
  BlasMatrix() = default;
  // `weight` is [out, in] row-major with rows `stride` floats apart. The environment variable SHARPBEAM_BLAS
  // names the library; throws std::invalid_argument where it is unset or names none.
  BlasMatrix(const float* weight, int64_t out, int64_t in, int64_t stride);

  // y = x W^T + bias [out] for `rows` rows. The bits of a row may depend on how many there are.
  void matmul(const float* bias, const float* x, int64_t x_stride, float* y, int64_t y_stride, int64_t rows) const;

 private:
  Sgemm sgemm_ = nullptr;
  int64_t out_ = 0, in_ = 0;
  Buffer transposed_;
};

}  // namespace sharpbeam
