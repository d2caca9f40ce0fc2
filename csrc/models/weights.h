// Named float32 arrays from which a model is built.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/matrix.h"

namespace quickbeam {

using Array = std::shared_ptr<const float>;  // shared, so that an embedding table need not be copied

struct Tensor {
  Array data;
  std::vector<int64_t> shape;  // row-major
};

class Weights {
 public:
  explicit Weights(std::map<std::string, Tensor> tensors) : tensors_(std::move(tensors)) {}

  // The array `name`; throws std::invalid_argument where it is missing or has another shape.
  const Array& array(const std::string& name, const std::vector<int64_t>& shape) const;

  // The [out, in] matrix `name`, packed, without a bias or with the [out] array `bias`.
  Matrix matrix(const std::string& name, int64_t out, int64_t in) const;
  Matrix matrix(const std::string& name, const std::string& bias, int64_t out, int64_t in) const;

 private:
  std::map<std::string, Tensor> tensors_;
};

}  // namespace quickbeam
