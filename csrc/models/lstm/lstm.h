// Long short-term memory: the cell of an encoder, and a stack of layers that takes one token for each row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "models/common/rows.h"
#include "models/common/weights.h"

namespace sharpbeam {

struct LstmCell {
  static constexpr int64_t kGates = 4;
  static constexpr int64_t kStateVectors = 2;  // a state is the output [dim], then the cell [dim]

  Linear input;   // [kGates * dim, input_dim]
  Linear hidden;  // [kGates * dim, dim]
  int64_t dim = 0;

  LstmCell(const Weights& weights, const std::string& name, int64_t input_dim, int64_t state_dim)
      : input(weights.linear(name + ".input_weight", name + ".input_bias", kGates * state_dim, input_dim)),
        hidden(weights.linear(name + ".hidden_weight", name + ".hidden_bias", kGates * state_dim, state_dim)),
        dim(state_dim) {}

  // Updates the state [2 * dim], given the outputs of both layers [kGates * dim].
  void advance(const Kernels& table, const float* from_input, const float* from_hidden, float* state) const {
    table.lstm(from_input, from_hidden, state + dim, state + dim, state, dim);
  }
};

// Scratch memory of one decoding run; it only grows, so a warm step allocates nothing.
struct LstmBuffers {
  Buffer layer_inputs, gates, recurrent;
  LinearInput input;
};

constexpr size_t kResidualFrom = 2;  // residual connections begin at the third layer (Wu et al. 2016, eq. 6)

// Layers of LSTMs. A state is an input feed (`feed_dim` floats that the lowest layer reads next to its own output; 0
// without input feeding), then the output and the cell of each layer.
class LstmStack {
 public:
  struct Layer {
    Linear input;   // [4 D, width of the layer below]
    Linear hidden;  // [4 D, D], of the lowest layer [4 D, feed_dim + D]
  };

  LstmStack() = default;
  LstmStack(std::vector<Layer> layers, int64_t dim, int64_t feed_dim, bool residual = false)
      : layers_(std::move(layers)), dim_(dim), feed_dim_(feed_dim), residual_(residual) {}

  // Feeds the rows' tokens, rows of the table `embedding`. Writes the outputs and cells of the new states, but not the
  // input feed. Returns the outputs [R, D] of the uppermost layer, in `buffers`, which grow where they are too small.
  float* step(const Kernels& table, const StepRows& step, const float* embedding, LstmBuffers& buffers) const;

 private:
  std::vector<Layer> layers_;
  int64_t dim_ = 0, feed_dim_ = 0;
  bool residual_ = false;
};

}  // namespace sharpbeam
