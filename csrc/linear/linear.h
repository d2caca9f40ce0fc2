// A linear layer, y = x W^T + b, with packed weights, in the number type that the user chose.
#pragma once

#include <cstdint>
#include <string>

#include "core/buffer.h"
#include "kernels/table.h"
#include "linear/float32_matrix.h"
#include "linear/int16_matrix.h"
#include "linear/int8_matrix.h"

namespace sharpbeam {

// The number type of a matmul. int8 and int16 quantize each row of weights when it is packed and each row of inputs
// when it is used, with one scale for each row: int8 with max |x| / 127, int16 as Int16Matrix says.
enum class ComputeType { float32, int16, int8 };

// The type `name`; throws std::invalid_argument with the allowed names.
ComputeType compute_type_named(const std::string& name);

// Input rows in the form that a compute type reads them, quantized where it is int8 or int16: made once where several
// layers share them. The memory only grows, so a warm step allocates nothing. For one thread at a time.
class LinearInput {
 public:
  // x [rows, in], rows `stride` floats apart. It must not change until the last matmul, since float32 reads it in
  // place.
  void set(const Kernels& table, ComputeType type, const float* x, int64_t stride, int64_t rows, int64_t in);

 private:
  friend class Linear;

  template <typename Number>
  void quantize(float (*kernel)(const float*, int64_t, Number*), const float* x, int64_t stride, int64_t in,
                int64_t padded);

  const float* floats_ = nullptr;
  int64_t stride_ = 0;  // of the floats, or of the quantized numbers
  int64_t rows_ = 0;
  Buffer quantized_, scale_;  // [rows, stride] int8 or int16, and the scale of each row
};

// The weights are packed once and immutable, so any number of threads can share a layer. A row of y depends on that row
// of x alone, with the same bits on every table.
class Linear {
 public:
  Linear() = default;
  // `weight` is [out, in] row-major with rows `stride` floats apart (stride >= in: a range of columns can be packed);
  // `bias` is [out] or null. Throws std::invalid_argument where `in` is more than the type can sum.
  Linear(ComputeType type, const float* weight, int64_t out, int64_t in, int64_t stride, const float* bias);

  // y [rows, out] = x W^T + b; rows of x and y are x_stride and y_stride floats apart; y must not overlap x. Allocates
  // only where `scratch` is too small.
  void apply(const Kernels& table, const float* x, int64_t x_stride, float* y, int64_t y_stride, int64_t rows,
             LinearInput& scratch) const;
  // The same, of an input that was set with the type and width of this layer.
  void apply(const Kernels& table, const LinearInput& input, float* y, int64_t y_stride) const;

  ComputeType type() const { return type_; }
  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

 private:
  ComputeType type_ = ComputeType::float32;
  int64_t in_ = 0, out_ = 0;
  Float32Matrix float32_;  // the one of `type` is filled
  Int16Matrix int16_;
  Int8Matrix int8_;
  Buffer bias_;  // unless the matrix holds it itself
};

}  // namespace sharpbeam
