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

// The maximum absolute value of n numbers, in lanes so that the compiler can vectorize.
template <typename Number>
Number max_abs(const Number* w, int64_t n) {
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
QuantizedRow quantize_row(const Number* w, int64_t n, uint8_t* q) {
  constexpr double kTiny = 1e-20;  // a row of smaller weights counts as zero: its scale would be subnormal
  constexpr int64_t kBlock = 512;
  const double largest = max_abs(w, n);
  const float scale = largest < kTiny ? 0.0f : static_cast<float>(largest / 127.0);
  double squared_error = 0.0, block[kBlock];
  for (int64_t k = 0; k < n; k += kBlock) {
    const int64_t count = std::min(kBlock, n - k);
    std::copy_n(w + k, count, block);
    squared_error += kernels().quantize_weights(block, count, scale, q + k);  // all tables return the same bits
  }
  return {scale, std::sqrt(squared_error)};
}

template QuantizedRow quantize_row(const float* w, int64_t n, uint8_t* q);
template QuantizedRow quantize_row(const double* w, int64_t n, uint8_t* q);

Int8Matrix::Int8Matrix(int64_t out, int64_t in) : in_(in), out_(out) {
  if (in > kMaxInt8Depth) {
    throw std::invalid_argument("the width is " + std::to_string(in) + "; int8 matmuls need at most " +
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
  const QuantizedRow quantized = quantize_row(w, in_, bytes.data());
  uint8_t* to = reinterpret_cast<uint8_t*>(packed_.get()) + row / kPanel * kPanel * padded_int8(in_);
  to += row % kPanel * kInt8Group;
  for (int64_t k = 0; k < blocks; ++k)
    std::memcpy(to + k * kPanel * kInt8Group, bytes.data() + k * kInt8Group, kInt8Group);
  scale_.get()[row] = quantized.scale;
  return quantized.error;
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
