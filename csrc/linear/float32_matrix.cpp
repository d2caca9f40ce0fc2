#include "linear/float32_matrix.h"

#include <algorithm>

#include "core/file_pages.h"
#include "linear/panels.h"

namespace sharpbeam {

Float32Matrix::Float32Matrix(const float* weight, int64_t out, int64_t in, int64_t stride, const float* bias)
    : packed_(packed_size(in, out)), in_(in), out_(out) {
  SequentialRead read(weight);
  for (int64_t first = 0; first < out; first += kPanel) {
    const int64_t columns = std::min<int64_t>(kPanel, out - first);
    pack_rows(columns, in, [&](int64_t c) { return weight + (first + c) * stride; }, packed_.get() + first * in);
    read.advance_to(weight + (first + columns - 1) * stride + in);
  }
  if (bias != nullptr) {
    bias_.reserve(out);
    std::copy(bias, bias + out, bias_.get());
  }
}

void Float32Matrix::matmul(const Kernels& table, const float* x, int64_t x_stride, float* y, int64_t y_stride,
                           int64_t rows) const {
  const float* bias = bias_.get();
  parallel_panels(out_, in_ * static_cast<int64_t>(sizeof(float)), rows, [&](int64_t first, int64_t out) {
    table.gemm(packed_.get() + first * in_, bias == nullptr ? nullptr : bias + first, x, x_stride, y + first, y_stride,
               rows, in_, out);
  });
}

float Float32Matrix::element(const Kernels& table, const float* x, int64_t column) const {
  float panel[kPanel];
  const int64_t first = column / kPanel * kPanel;
  const float* bias = bias_.get() == nullptr ? nullptr : bias_.get() + first;
  table.gemm(packed_.get() + first * in_, bias, x, in_, panel, kPanel, 1, in_, std::min<int64_t>(kPanel, out_ - first));
  return panel[column - first];
}

}  // namespace sharpbeam
