#include "models/common/weights.h"

#include <stdexcept>

namespace sharpbeam {
namespace {

std::string text(const std::vector<int64_t>& shape) {
  std::string result = "[";
  for (size_t i = 0; i < shape.size(); ++i) result += (i ? ", " : "") + std::to_string(shape[i]);
  return result + "]";
}

Array widened(const Tensor& matrix) {
  const int64_t rows = matrix.shape[0], columns = matrix.shape[1];
  const auto values = std::make_shared<Buffer>(rows * columns);
  for (int64_t row = 0; row < rows; ++row) {
    const float scale = matrix.scale.get()[row];
    for (int64_t i = row * columns; i < (row + 1) * columns; ++i) values->get()[i] = matrix.integers.get()[i] / scale;
  }
  return {values, values->get()};
}

}  // namespace

Array Weights::array(const std::string& name, const std::vector<int64_t>& shape) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw std::invalid_argument("tensor '" + name + "' is missing.");
  if (found->second.shape != shape)
    throw std::invalid_argument("tensor '" + name + "' has shape " + text(found->second.shape) +
                                "; the config implies " + text(shape) + ".");
  return found->second.data != nullptr ? found->second.data : widened(found->second);
}

Linear Weights::linear(const std::string& name, int64_t out, int64_t in) const {
  return Linear(options_.type, array(name, {out, in}).get(), out, in, in, nullptr);
}

Linear Weights::linear(const std::string& name, const std::string& bias, int64_t out, int64_t in) const {
  return Linear(options_.type, array(name, {out, in}).get(), out, in, in, array(bias, {out}).get());
}

}  // namespace sharpbeam
