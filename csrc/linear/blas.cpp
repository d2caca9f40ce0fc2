#include "linear/blas.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>

#if __has_include(<dlfcn.h>)
#include <dlfcn.h>
#define SHARPBEAM_DLFCN
#endif

namespace sharpbeam {
namespace {

constexpr const char* kVariable = "SHARPBEAM_BLAS";
constexpr int kRowMajor = 101, kNoTranspose = 111;  // of the CBLAS interface

Sgemm chosen_sgemm() {
  const char* library = std::getenv(kVariable);
  if (library == nullptr || *library == '\0') {
    throw std::invalid_argument("compute_type is \"blas\", which needs a library; " + std::string(kVariable) +
                                " must name a shared library with cblas_sgemm");
  }
  return load_sgemm(kVariable, library);
}

}  // namespace

Sgemm load_sgemm(const char* name, const char* library) {
  const std::string given = std::string(name) + " is \"" + library + "\"; ";
#ifdef SHARPBEAM_DLFCN
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::invalid_argument(given + "it must be a shared library (" + dlerror() + ")");
  for (const char* symbol : {"cblas_sgemm", "scipy_cblas_sgemm"}) {
    if (void* found = dlsym(handle, symbol)) return reinterpret_cast<Sgemm>(found);
  }
  throw std::invalid_argument(given + "it must be a library with cblas_sgemm, which this one lacks");
#else
  throw std::invalid_argument(given + "no library can be loaded on this system");
#endif
}

BlasMatrix::BlasMatrix(const float* weight, int64_t out, int64_t in, int64_t stride)
    : sgemm_(chosen_sgemm()), out_(out), in_(in), transposed_(in * out) {
  for (int64_t n = 0; n < out; ++n)
    for (int64_t k = 0; k < in; ++k) transposed_.get()[k * out + n] = weight[n * stride + k];
}

void BlasMatrix::matmul(const float* bias, const float* x, int64_t x_stride, float* y, int64_t y_stride,
                        int64_t rows) const {
  for (int64_t row = 0; row < rows; ++row) std::copy_n(bias, out_, y + row * y_stride);
  const auto as_int = [](int64_t n) { return static_cast<int>(n); };
  sgemm_(kRowMajor, kNoTranspose, kNoTranspose, as_int(rows), as_int(out_), as_int(in_), 1.0f, x, as_int(x_stride),
         transposed_.get(), as_int(out_), 1.0f, y, as_int(y_stride));
}

}  // namespace sharpbeam
