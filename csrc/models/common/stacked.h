// Matrices that read the same input, stacked by rows into one: a single matmul computes all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/file_pages.h"
#include "linear/linear.h"

namespace sharpbeam {

class StackedWeights {
 public:
  explicit StackedWeights(int64_t in) : in_(in) {}

  // Appends `out` rows of `in` floats, `stride` apart, with their bias [out] or null (zeros).
  void add(const float* weight, int64_t out, int64_t stride, const float* bias) {
    SequentialRead read(weight);
    for (int64_t n = 0; n < out; ++n) {
      const float* row = weight + n * stride;
      weight_.insert(weight_.end(), row, row + in_);
      read.advance_to(row + in_);
    }
    if (bias == nullptr)
      bias_.resize(bias_.size() + out, 0.0f);
    else
      bias_.insert(bias_.end(), bias, bias + out);
  }

  Linear linear(ComputeType type) const {
    return Linear(type, weight_.data(), static_cast<int64_t>(bias_.size()), in_, in_, bias_.data());
  }

 private:
  int64_t in_;
  std::vector<float> weight_, bias_;
};

}  // namespace sharpbeam
