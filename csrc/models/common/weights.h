// Named float32 arrays from which a model is built, and how its products are computed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "models/common/computing.h"

namespace sharpbeam {

struct Tensor {
  Array data;                  // shared, so that an embedding table need not be copied
  std::vector<int64_t> shape;  // row-major
};

class Weights {
 public:
  explicit Weights(std::map<std::string, Tensor> tensors, const Computing& computing = {})
      : tensors_(std::move(tensors)), computing_(computing) {}

  // The array `name`; throws std::invalid_argument where it is missing or has another shape.
  const Array& array(const std::string& name, const std::vector<int64_t>& shape) const;

  // The product with the [out, in] matrix `name`, without a bias or with the [out] array `bias`.
  Linear linear(const std::string& name, int64_t out, int64_t in) const;
  Linear linear(const std::string& name, const std::string& bias, int64_t out, int64_t in) const;

  ComputeType compute_type() const { return computing_.type; }
  const Computing& computing() const { return computing_; }

 private:
  std::map<std::string, Tensor> tensors_;
  Computing computing_;
};

}  // namespace sharpbeam
