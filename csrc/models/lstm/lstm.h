// Long short-term memories: the cell of an encoder, and a stack of layers that takes one word of each row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "models/common/rows.h"
#include "models/common/weights.h"

namespace sharpbeam {

struct Lstm {
  static constexpr int64_t kGates = 4;
  static constexpr int64_t kParts = 2;  // of a state, `dim` floats each: the output, then the cell

  Linear input;   // [kGates * dim, input width]
  Linear hidden;  // [kGates * dim, dim]
  int64_t dim = 0;

  Lstm(const Weights& weights, const std::string& name, int64_t input_dim, int64_t state_dim)
      : input(weights.linear(name + ".input_weight", name + ".input_bias", kGates * state_dim, input_dim)),
        hidden(weights.linear(name + ".hidden_weight", name + ".hidden_bias", kGates * state_dim, state_dim)),
        dim(state_dim) {}

  // Moves the state [kParts * dim] on, given both products.
  void advance(const Kernels& table, const float* gates, const float* recurrent, float* state) const {
    table.lstm(gates, recurrent, state + dim, state + dim, state, dim);
  }
};

// Scratch of one decoding run; it only grows, so a warm step allocates nothing.
struct LstmBuffers {
  Buffer inputs, gates, recurrent;
  LinearInput rounded;
};

// Layers of LSTMs. A state is `fed` floats that the lowest layer reads too, then each layer's output and cell.
constexpr size_t kResidualFrom = 2;  // the third layer is the first that adds what is below (Wu et al. 2016, eq. 6)

class LstmStack {
 public:
  struct Layer {
    Linear input;   // [4 D, width below]
    Linear hidden;  // [4 D, D], of the lowest layer [4 D, fed + D]
  };

  LstmStack() = default;
  LstmStack(std::vector<Layer> layers, int64_t dim, int64_t fed, bool residual = false)
      : layers_(std::move(layers)), dim_(dim), fed_(fed), residual_(residual) {}

  // Feeds the rows' words, rows of the table `embedding`. Writes outputs and cells of the new states, not what is fed.
  // Returns the outputs [R, D] of the uppermost layer, in `buffers`, which grow where they are too small.
  float* step(const Kernels& table, const StepRows& step, const float* embedding, LstmBuffers& buffers) const;

 private:
  std::vector<Layer> layers_;
  int64_t dim_ = 0, fed_ = 0;
  bool residual_ = false;
};

}  // namespace sharpbeam
