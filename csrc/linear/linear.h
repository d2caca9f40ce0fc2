// A product with packed weights and a bias, computed in the type of number that the user chose.
#pragma once

#include <cstdint>
#include <string>

#include "core/buffer.h"
#include "kernels/table.h"
#include "linear/blas.h"
#include "linear/float32_matrix.h"
#include "linear/int16_matrix.h"
#include "linear/int8_matrix.h"

namespace sharpbeam {

// What weights and inputs of a product are rounded to. float32 rounds nothing. int8 and int16 round each row of
// weights and, when it is used, each row of inputs to whole multiples: int8 of its largest size / 127, int16 as
// Int16Matrix says. blas is float32 by a library that is given at run time (BlasMatrix), for comparisons.
enum class ComputeType { float32, int16, int8, blas };

// The type `name`; throws std::invalid_argument with the names that there are.
ComputeType compute_type_named(const std::string& name);

// Rows of floats as products of one type read them: made once where several products share them. The memory only
// grows, so a warm step allocates nothing. For one thread at a time.
class LinearInput {
 public:
  // x [rows, in], rows `stride` floats apart; it must stay as it is until the products are done, since float32 reads
  // it where it is.
  void read(const Kernels& table, ComputeType type, const float* x, int64_t stride, int64_t rows, int64_t in);

 private:
  friend class Linear;

  template <typename Number>
  void fill(float (*quantize)(const float*, int64_t, Number*), const float* x, int64_t stride, int64_t in,
            int64_t padded);

  const float* floats_ = nullptr;
  int64_t stride_ = 0;  // of the floats, or of the whole numbers
  int64_t rows_ = 0;
  Buffer whole_, scale_;  // [rows, stride] bytes or 16-bit numbers, and what each row was divided by
};

// The weights are packed once; immutable, so any number of threads share one. A row of y depends on that row of x
// alone, with the same bits on every table; but for blas, which may sum otherwise where there are more rows.
class Linear {
 public:
  Linear() = default;
  // `weight` is [out, in] row-major with rows `stride` floats apart (stride >= in: a range of columns can be packed);
  // `bias` is [out] or null. Throws std::invalid_argument where `in` is more than the type can sum.
  Linear(ComputeType type, const float* weight, int64_t out, int64_t in, int64_t stride, const float* bias);

  // y [rows, out] = x W' + b, rows of x and y that many floats apart; y must not overlap x. Allocates only where
  // `scratch` is too small.
  void apply(const Kernels& table, const float* x, int64_t x_stride, float* y, int64_t y_stride, int64_t rows,
             LinearInput& scratch) const;
  // The same of an input that was read with the type and width of this product.
  void apply(const Kernels& table, const LinearInput& input, float* y, int64_t y_stride) const;

  ComputeType type() const { return type_; }
  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

 private:
  ComputeType type_ = ComputeType::float32;
  int64_t in_ = 0, out_ = 0;
  Float32Matrix floats_;  // one of these is filled
  Int16Matrix shorts_;
  Int8Matrix bytes_;
  BlasMatrix blas_;
  Buffer bias_;  // where the matrix has none itself
};

}  // namespace sharpbeam
