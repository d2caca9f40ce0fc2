// Products in float32 by a BLAS that is given at run time, for comparisons only: nothing is linked with one, and
// nothing of ours needs one.
#pragma once

#include <cstdint>

#include "core/buffer.h"

namespace sharpbeam {

// cblas_sgemm: order, whether a and b are transposed, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc.
using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);

// cblas_sgemm (or scipy_cblas_sgemm) of a shared library, which stays loaded. Throws std::invalid_argument where there
// is none; `name` is what the caller calls the library.
Sgemm load_sgemm(const char* name, const char* library);

// A matrix in the order that OpenBLAS multiplies few rows with in less time, row-major [in, out]
// (bench/micro/gemm.py).
class BlasMatrix {
 public:
  BlasMatrix() = default;
  // `weight` is [out, in] row-major with rows `stride` floats apart. The library is that which the environment variable
  // SHARPBEAM_BLAS names; throws std::invalid_argument where it names none.
  BlasMatrix(const float* weight, int64_t out, int64_t in, int64_t stride);

  // y = x W' + bias [out] for `rows` rows. What a row becomes may depend on how many there are.
  void matmul(const float* bias, const float* x, int64_t x_stride, float* y, int64_t y_stride, int64_t rows) const;

 private:
  Sgemm sgemm_ = nullptr;
  int64_t out_ = 0, in_ = 0;
  Buffer turned_;
};

}  // namespace sharpbeam
