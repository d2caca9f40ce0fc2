// A gated recurrent unit: its two products, and a step of a lone state.
#pragma once

#include <cstdint>
#include <string>

#include "models/common/weights.h"

namespace sharpbeam {

struct Gru {
  static constexpr int64_t kGates = 3;
  static constexpr int64_t kParts = 1;  // of a state, `dim` floats each: the output

  Linear input;   // [kGates * dim, input width]
  Linear hidden;  // [kGates * dim, dim]
  int64_t dim = 0;

  Gru() = default;
  Gru(const Weights& weights, const std::string& name, int64_t input_dim, int64_t state_dim)
      : input(weights.linear(name + ".input_weight", name + ".input_bias", kGates * state_dim, input_dim)),
        hidden(weights.linear(name + ".hidden_weight", name + ".hidden_bias", kGates * state_dim, state_dim)),
        dim(state_dim) {}

  // Moves the state [kParts * dim] on, given both products.
  void advance(const Kernels& table, const float* gates, const float* recurrent, float* state) const {
    table.gru(gates, recurrent, state, state, dim);
  }
};

}  // namespace sharpbeam
