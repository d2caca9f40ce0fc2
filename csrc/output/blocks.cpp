#include "output/blocks.h"

#include <algorithm>

namespace sharpbeam {

Blocks::Blocks(const int32_t* start, int64_t blocks, int64_t dim, bool int8)
    : start_(start, start + blocks + 1), panel_(1, 0), dim_(dim), int8_(int8) {
  for (int64_t t = 0; t < blocks; ++t) {
    panel_.push_back(panel_.back() + (size(t) + kPanel - 1) / kPanel);
    most_ = std::max(most_, size(t));
  }
  const int64_t rows = panel_.back() * kPanel;
  bias_.reserve(rows);
  std::fill_n(bias_.get(), rows, 0.0f);
  if (int8_) {
    matrix_ = Int8Matrix(rows, dim);
  } else {
    floats_.reserve(rows * dim);
    std::fill_n(floats_.get(), rows * dim, 0.0f);
  }
}

double Blocks::set_row(int64_t block, int64_t i, const float* weight, float bias) {
  const int64_t row = panel_[block] * kPanel + i;
  bias_.get()[row] = bias;
  if (int8_) return matrix_.set_row(row, weight);
  float* to = floats_.get() + row / kPanel * kPanel * dim_ + row % kPanel;
  for (int64_t k = 0; k < dim_; ++k) to[k * kPanel] = weight[k];
  return 0.0;
}

void Blocks::matmul(const Kernels& table, int64_t block, const HiddenRows& x, float* y, int64_t y_stride,
                    int64_t rows) const {
  const int64_t first = panel_[block] * kPanel;
  const float* bias = bias_.get() + first;
  if (int8_) {
    matrix_.matmul_panels(table, first, size(block), bias, x.int8, padded_int8(dim_), x.scale, y, y_stride, rows);
  } else {
    table.gemm(floats_.get() + first * dim_, bias, x.floats, dim_, y, y_stride, rows, dim_, size(block));
  }
}

}  // namespace sharpbeam
