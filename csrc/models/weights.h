// Named float32 arrays from which a model is built, and the type in which its products are computed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/linear.h"

namespace quickbeam {

using Array = std::shared_ptr<const float>;  // shared, so that an embedding table need not be copied

struct Tensor {
  Array data;
  std::vector<int64_t> shape;  // row-major
};

class Weights {
 public:
  explicit Weights(std::map<std::string, Tensor> tensors, ComputeType compute_type = ComputeType::float32)
      : tensors_(std::move(tensors)), compute_type_(compute_type) {}

  // The array `name`; throws std::invalid_argument where it is missing or has another shape.
  const Array& array(const std::string& name, const std::vector<int64_t>& shape) const;

  // The product with the [out, in] matrix `name`, without a bias or with the [out] array `bias`.
  Linear linear(const std::string& name, int64_t out, int64_t in) const;
  Linear linear(const std::string& name, const std::string& bias, int64_t out, int64_t in) const;

  ComputeType compute_type() const { return compute_type_; }

 private:
  std::map<std::string, Tensor> tensors_;
  ComputeType compute_type_;
};

}  // namespace quickbeam
