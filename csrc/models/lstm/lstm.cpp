#include "models/lstm/lstm.h"

#include <algorithm>

namespace sharpbeam {

float* LstmStack::step(const Kernels& table, const StepRows& step, const float* embedding, LstmBuffers& buffers) const {
  const int64_t rows = step.rows, gates_dim = LstmCell::kGates * dim_;
  const int64_t state_dim = feed_dim_ + static_cast<int64_t>(layers_.size()) * LstmCell::kStateVectors * dim_;
  int64_t width = layers_.front().input.in();
  buffers.layer_inputs.reserve(rows * std::max(width, dim_));
  buffers.gates.reserve(rows * gates_dim);
  buffers.recurrent.reserve(step.parents * gates_dim);
  float *inputs = buffers.layer_inputs.get(), *gates = buffers.gates.get(), *recurrent = buffers.recurrent.get();
  for (int64_t row = 0; row < rows; ++row)
    std::copy_n(embedding + step.token[row] * width, width, inputs + row * width);
  int64_t at = feed_dim_;  // offset of the layer in a state: its output, then its cell
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const float* previous = step.states + at + dim_ - layer.hidden.in();  // of the lowest layer, with the input feed
    layer.input.apply(table, inputs, width, gates, gates_dim, rows, buffers.input);
    layer.hidden.apply(table, previous, state_dim, recurrent, gates_dim, step.parents, buffers.input);
    width = dim_;
    for (int64_t row = 0; row < rows; ++row) {
      const float* cell = step.states + step.parent[row] * state_dim + at + dim_;
      float* output = step.next[row] + at;
      table.lstm(gates + row * gates_dim, recurrent + step.parent[row] * gates_dim, cell, output + dim_, output, dim_);
      float* above = inputs + row * dim_;
      if (residual_ && i >= kResidualFrom)
        for (int64_t d = 0; d < dim_; ++d) above[d] += output[d];
      else
        std::copy_n(output, dim_, above);
    }
    at += LstmCell::kStateVectors * dim_;
  }
  return inputs;
}

}  // namespace sharpbeam
