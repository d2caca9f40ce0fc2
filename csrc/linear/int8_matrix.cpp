#include "linear/int8_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "linear/panels.h"

namespace sharpbeam {
namespace {

// The largest size of n numbers, in lanes that the compiler can keep side by side.
template <typename Number>
Number largest(const Number* w, int64_t n) {
  Number most[kLanes] = {};
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) {
    for (int64_t i = 0; i < kLanes; ++i) most[i] = std::max(most[i], std::fabs(w[k + i]));
  }
  for (; k < n; ++k) most[0] = std::max(most[0], std::fabs(w[k]));
  return *std::max_element(most, most + kLanes);
}

}  // namespace

template <typename Number>
QuantizedRow quantize_row(const Number* w, int64_t n, uint8_t* bytes) {
  constexpr double kTiny = 1e-20;  // a row with nothing larger is taken as zero: its scale would be no normal number
  constexpr int64_t kSome = 512;
  const double most = largest(w, n);
  const float scale = most < kTiny ? 0.0f : static_cast<float>(most / 127.0);
  double square = 0.0, some[kSome];
  for (int64_t k = 0; k < n; k += kSome) {
    const int64_t count = std::min(kSome, n - k);
    std::copy_n(w + k, count, some);
    square += kernels().quantize_weights(some, count, scale, bytes + k);  // all tables give the same bits
  }
  return {scale, std::sqrt(square)};
}

template QuantizedRow quantize_row(const float* w, int64_t n, uint8_t* bytes);
template QuantizedRow quantize_row(const double* w, int64_t n, uint8_t* bytes);

Int8Matrix::Int8Matrix(int64_t out, int64_t in) : in_(in), out_(out) {
  if (in > kMaxInt8Depth) {
    throw std::invalid_argument("the width is " + std::to_string(in) + "; int8 products need at most " +
                                std::to_string(kMaxInt8Depth));
  }
  const int64_t bytes = packed_size(padded_int8(in), out);
  packed_.reserve(bytes / static_cast<int64_t>(sizeof(float)));
  std::memset(packed_.get(), 128, static_cast<size_t>(bytes));
  scale_.reserve(out);
  std::fill_n(scale_.get(), out, 0.0f);
}

template <typename Number>
double Int8Matrix::set_row(int64_t row, const Number* w) {
  const int64_t blocks = padded_int8(in_) / kInt8Group;
  thread_local std::vector<uint8_t> bytes;
  bytes.assign(static_cast<size_t>(blocks * kInt8Group), 128);
  const QuantizedRow rounded = quantize_row(w, in_, bytes.data());
  uint8_t* to = reinterpret_cast<uint8_t*>(packed_.get()) + row / kPanel * kPanel * padded_int8(in_);
  to += row % kPanel * kInt8Group;
  for (int64_t k = 0; k < blocks; ++k)
    std::memcpy(to + k * kPanel * kInt8Group, bytes.data() + k * kInt8Group, kInt8Group);
  scale_.get()[row] = rounded.scale;
  return rounded.lost;
}

template double Int8Matrix::set_row(int64_t row, const float* w);
template double Int8Matrix::set_row(int64_t row, const double* w);

void Int8Matrix::matmul(const Kernels& table, const float* bias, const int8_t* x, int64_t x_stride,
                        const float* x_scale, float* y, int64_t y_stride, int64_t rows) const {
  parallel_panels(out_, padded_int8(in_), rows, [&](int64_t first, int64_t out) {
    matmul_panels(table, first, out, bias + first, x, x_stride, x_scale, y + first, y_stride, rows);
  });
}

void Int8Matrix::matmul_panels(const Kernels& table, int64_t first, int64_t out, const float* bias, const int8_t* x,
                               int64_t x_stride, const float* x_scale, float* y, int64_t y_stride, int64_t rows) const {
  const uint8_t* packed = reinterpret_cast<const uint8_t*>(packed_.get()) + first * padded_int8(in_);
  table.gemm_int8(packed, scale_.get() + first, bias, x, x_stride, x_scale, y, y_stride, rows, in_, out);
}

}  // namespace sharpbeam
