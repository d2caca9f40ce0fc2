#include "models/common/weights.h"

#include <bit>
#include <stdexcept>

#include "core/file_pages.h"

namespace sharpbeam {
namespace {

std::string text(const std::vector<int64_t>& shape) {
  std::string result = "[";
  for (size_t i = 0; i < shape.size(); ++i) result += (i ? ", " : "") + std::to_string(shape[i]);
  return result + "]";
}

// The bits of a finite float16 are those of a float from its exponent on, except for the bias of the exponent. No
// subnormal float stands between: a process may have them flushed to zero.
float widened(uint16_t half) {
  const uint32_t size = half & 0x7fff, sign = static_cast<uint32_t>(half & 0x8000) << 16;
  if (size < 0x400) return std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(size) * 0x1p-24f) | sign);
  return std::bit_cast<float>(((size << 13) + (112u << 23)) | sign);
}

Array widened(const Tensor& matrix) {
  const int64_t rows = matrix.shape[0], columns = matrix.shape[1];
  const auto values = std::make_shared<Buffer>(rows * columns);
  if (const uint16_t* halves = matrix.halves.get(); halves != nullptr) {
    for (int64_t i = 0; i < rows * columns; ++i) values->get()[i] = widened(halves[i]);
    release_pages(halves, halves + rows * columns);
    return {values, values->get()};
  }
  for (int64_t row = 0; row < rows; ++row) {
    const float scale = matrix.scale.get()[row];
    for (int64_t i = row * columns; i < (row + 1) * columns; ++i) values->get()[i] = matrix.integers.get()[i] / scale;
  }
  release_pages(matrix.integers.get(), matrix.integers.get() + rows * columns);
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
