// A gated recurrent unit: its two linear layers, and one step of one state.
#pragma once

#include <cstdint>
#include <string>

#include "models/common/weights.h"

namespace sharpbeam {

struct GruCell {
  static constexpr int64_t kGates = 3;
  static constexpr int64_t kStateVectors = 1;  // a state is the output [dim]

  Linear input;   // [kGates * dim, input_dim]
  Linear hidden;  // [kGates * dim, dim]
  int64_t dim = 0;

  GruCell() = default;
  GruCell(const Weights& weights, const std::string& name, int64_t input_dim, int64_t state_dim)
      : input(weights.linear(name + ".input_weight", name + ".input_bias", kGates * state_dim, input_dim)),
        hidden(weights.linear(name + ".hidden_weight", name + ".hidden_bias", kGates * state_dim, state_dim)),
        dim(state_dim) {}

  // Updates the state [dim], given the outputs of both layers [kGates * dim].
  void advance(const Kernels& table, const float* from_input, const float* from_hidden, float* state) const {
    table.gru(from_input, from_hidden, state, state, dim);
  }
};

}  // namespace sharpbeam
