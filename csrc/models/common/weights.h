// Named tensors from which a model is built, and the options of its matmuls.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "models/common/compute_options.h"

namespace sharpbeam {

struct Tensor {
  Array data;                                   // shared, so that an embedding table need not be copied; or null, and
  std::vector<int64_t> shape;                   // row-major
  std::shared_ptr<const int8_t> integers = {};  // a matrix of integers, of which a value is integer / scale of its row
  Array scale = {};                             // [rows]
  std::shared_ptr<const uint16_t> halves = {};  // or a matrix of float16, finite, by its bits
};

class Weights {
 public:
  explicit Weights(std::map<std::string, Tensor> tensors, const ComputeOptions& options = {})
      : tensors_(std::move(tensors)), options_(options) {}

  // The tensor `name`; throws std::invalid_argument where it is missing or has another shape. A matrix of integers or
  // of float16 is widened for the caller alone, so that not all are in memory as float32 at the same time.
  Array array(const std::string& name, const std::vector<int64_t>& shape) const;

  // A linear layer with the [out, in] matrix `name`, without a bias or with the [out] vector `bias`.
  Linear linear(const std::string& name, int64_t out, int64_t in) const;
  Linear linear(const std::string& name, const std::string& bias, int64_t out, int64_t in) const;

  ComputeType compute_type() const { return options_.type; }
  const ComputeOptions& options() const { return options_; }

 private:
  std::map<std::string, Tensor> tensors_;
  ComputeOptions options_;
};

}  // namespace sharpbeam
