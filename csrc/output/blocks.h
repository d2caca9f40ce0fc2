// Rows of weights in blocks of different sizes, each packed as a matrix of its own: the token sets of a screen. Floats,
// or int8 with a scale for each row.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "kernels/table.h"
#include "linear/int8_matrix.h"

namespace sharpbeam {

// Hidden vectors as a matmul takes them: [rows, dim] floats, and where the blocks are int8, [rows, width] int8 numbers
// and the scale of each row.
struct HiddenRows {
  const float* floats;
  const int8_t* int8;
  const float* scale;

  HiddenRows from(int64_t row, int64_t dim, int64_t width) const {
    if (int8 == nullptr) return {floats + row * dim, nullptr, nullptr};
    return {floats + row * dim, int8 + row * width, scale + row};
  }
};

class Blocks {
 public:
  Blocks() = default;
  // Block t has the rows start[t] to start[t + 1] - 1, at least one. All are zero. Throws std::invalid_argument where
  // int8 is asked for and `dim` is more than kMaxInt8Depth.
  Blocks(const int32_t* start, int64_t blocks, int64_t dim, bool int8);

  // Sets row i of a block; returns the Euclidean norm of its quantization error, 0 for floats.
  double set_row(int64_t block, int64_t i, const float* weight, float bias);

  // y [rows, y_stride] = bias + x W' for the rows of one block.
  void matmul(const Kernels& table, int64_t block, const HiddenRows& x, float* y, int64_t y_stride, int64_t rows) const;

  int64_t size(int64_t block) const { return start_[block + 1] - start_[block]; }
  int64_t most() const { return most_; }  // rows of the largest block
  bool int8() const { return int8_; }

 private:
  std::vector<int32_t> start_;
  std::vector<int64_t> panel_;  // [blocks + 1] first panel of each block
  Buffer floats_, bias_;        // panels as in Float32Matrix; the biases, padded to whole panels
  Int8Matrix matrix_;           // the same rows, where they are int8
  int64_t dim_ = 0, most_ = 0;
  bool int8_ = false;
};

}  // namespace sharpbeam
