#include "linear/linear.h"

#include <algorithm>
#include <stdexcept>

#include "core/file_pages.h"

namespace sharpbeam {
namespace {

constexpr const char* kTypeNames[] = {"float32", "int16", "int8"};

}  // namespace

ComputeType compute_type_named(const std::string& name) {
  std::string allowed;
  for (int i = 0; i < static_cast<int>(std::size(kTypeNames)); ++i) {
    if (name == kTypeNames[i]) return static_cast<ComputeType>(i);
    allowed += (i ? ", " : "") + std::string(kTypeNames[i]);
  }
  throw std::invalid_argument("compute_type is \"" + name + "\"; it must be one of " + allowed);
}

void LinearInput::set(const Kernels& table, ComputeType type, const float* x, int64_t stride, int64_t rows,
                      int64_t in) {
  rows_ = rows;
  if (type == ComputeType::float32) {
    floats_ = x;
    stride_ = stride;
    return;
  }
  if (type == ComputeType::int16) {
    quantize<int16_t>(table.quantize_int16, x, stride, in, padded_int16(in));
  } else {
    quantize<int8_t>(table.quantize_int8, x, stride, in, padded_int8(in));
  }
}

template <typename Number>
void LinearInput::quantize(float (*kernel)(const float*, int64_t, Number*), const float* x, int64_t stride, int64_t in,
                           int64_t padded) {
  stride_ = padded;
  quantized_.reserve(rows_ * padded * static_cast<int64_t>(sizeof(Number)) / static_cast<int64_t>(sizeof(float)));
  scale_.reserve(rows_);
  Number* to = reinterpret_cast<Number*>(quantized_.get());
  for (int64_t row = 0; row < rows_; ++row, to += padded) {
    scale_.get()[row] = kernel(x + row * stride, in, to);
    std::fill(to + in, to + padded, Number{0});
  }
}

Linear::Linear(ComputeType type, const float* weight, int64_t out, int64_t in, int64_t stride, const float* bias)
    : type_(type), in_(in), out_(out) {
  if (type == ComputeType::float32) {
    float32_ = Float32Matrix(weight, out, in, stride, bias);
    return;
  }
  SequentialRead read(weight);
  if (type == ComputeType::int16) int16_ = Int16Matrix(out, in);
  if (type == ComputeType::int8) int8_ = Int8Matrix(out, in);
  for (int64_t n = 0; n < out; ++n) {
    const float* row = weight + n * stride;
    if (type == ComputeType::int16) int16_.set_row(n, row);
    if (type == ComputeType::int8) int8_.set_row(n, row);
    read.advance_to(row + in);
  }
  bias_.reserve(out);
  if (bias == nullptr)
    std::fill_n(bias_.get(), out, 0.0f);
  else
    std::copy_n(bias, out, bias_.get());
}

void Linear::apply(const Kernels& table, const float* x, int64_t x_stride, float* y, int64_t y_stride, int64_t rows,
                   LinearInput& scratch) const {
  scratch.set(table, type_, x, x_stride, rows, in_);
  apply(table, scratch, y, y_stride);
}

void Linear::apply(const Kernels& table, const LinearInput& input, float* y, int64_t y_stride) const {
  const float* quantized = input.quantized_.get();
  switch (type_) {
    case ComputeType::float32:
      return float32_.matmul(table, input.floats_, input.stride_, y, y_stride, input.rows_);
    case ComputeType::int16:
      return int16_.matmul(table, bias_.get(), reinterpret_cast<const int16_t*>(quantized), input.stride_,
                           input.scale_.get(), y, y_stride, input.rows_);
    case ComputeType::int8:
      return int8_.matmul(table, bias_.get(), reinterpret_cast<const int8_t*>(quantized), input.stride_,
                          input.scale_.get(), y, y_stride, input.rows_);
  }
}

}  // namespace sharpbeam
