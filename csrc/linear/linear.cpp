#include "linear/linear.h"

#include <algorithm>
#include <stdexcept>

#include "core/file_pages.h"

namespace sharpbeam {
namespace {

constexpr const char* kNames[] = {"float32", "int16", "int8", "blas"};

bool reads_floats(ComputeType type) { return type == ComputeType::float32 || type == ComputeType::blas; }

}  // namespace

ComputeType compute_type_named(const std::string& name) {
  std::string allowed;
  for (int i = 0; i < static_cast<int>(std::size(kNames)); ++i) {
    if (name == kNames[i]) return static_cast<ComputeType>(i);
    allowed += (i ? ", " : "") + std::string(kNames[i]);
  }
  throw std::invalid_argument("compute_type is \"" + name + "\"; it must be one of " + allowed);
}

void LinearInput::read(const Kernels& table, ComputeType type, const float* x, int64_t stride, int64_t rows,
                       int64_t in) {
  rows_ = rows;
  if (reads_floats(type)) {
    floats_ = x;
    stride_ = stride;
    return;
  }
  if (type == ComputeType::int16) {
    fill<int16_t>(table.quantize_int16, x, stride, in, padded_int16(in));
  } else {
    fill<int8_t>(table.quantize_int8, x, stride, in, padded_int8(in));
  }
}

template <typename Number>
void LinearInput::fill(float (*quantize)(const float*, int64_t, Number*), const float* x, int64_t stride, int64_t in,
                       int64_t padded) {
  stride_ = padded;
  whole_.reserve(rows_ * padded * static_cast<int64_t>(sizeof(Number)) / static_cast<int64_t>(sizeof(float)));
  scale_.reserve(rows_);
  Number* to = reinterpret_cast<Number*>(whole_.get());
  for (int64_t row = 0; row < rows_; ++row, to += padded) {
    scale_.get()[row] = quantize(x + row * stride, in, to);
    std::fill(to + in, to + padded, Number{0});
  }
}

Linear::Linear(ComputeType type, const float* weight, int64_t out, int64_t in, int64_t stride, const float* bias)
    : type_(type), in_(in), out_(out) {
  if (type == ComputeType::float32) {
    floats_ = Float32Matrix(weight, out, in, stride, bias);
    return;
  }
  SequentialRead read(weight);
  if (type == ComputeType::blas) blas_ = BlasMatrix(weight, out, in, stride);
  if (type == ComputeType::int16) shorts_ = Int16Matrix(out, in);
  if (type == ComputeType::int8) bytes_ = Int8Matrix(out, in);
  for (int64_t n = 0; n < out; ++n) {
    const float* row = weight + n * stride;
    if (type == ComputeType::int16) shorts_.set_row(n, row);
    if (type == ComputeType::int8) bytes_.set_row(n, row);
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
  scratch.read(table, type_, x, x_stride, rows, in_);
  apply(table, scratch, y, y_stride);
}

void Linear::apply(const Kernels& table, const LinearInput& input, float* y, int64_t y_stride) const {
  const float* whole = input.whole_.get();
  switch (type_) {
    case ComputeType::float32:
      return floats_.matmul(table, input.floats_, input.stride_, y, y_stride, input.rows_);
    case ComputeType::int16:
      return shorts_.matmul(table, bias_.get(), reinterpret_cast<const int16_t*>(whole), input.stride_,
                            input.scale_.get(), y, y_stride, input.rows_);
    case ComputeType::int8:
      return bytes_.matmul(table, bias_.get(), reinterpret_cast<const int8_t*>(whole), input.stride_,
                           input.scale_.get(), y, y_stride, input.rows_);
    case ComputeType::blas:
      return blas_.matmul(bias_.get(), input.floats_, input.stride_, y, y_stride, input.rows_);
  }
}

}  // namespace sharpbeam
