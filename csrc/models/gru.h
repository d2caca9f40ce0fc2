// A gated recurrent unit: its two products. The gates themselves are Kernels::gru.
#pragma once

#include <cstdint>
#include <string>

#include "models/weights.h"

namespace quickbeam {

struct Gru {
  Matrix input;   // [3 * dim, input width]
  Matrix hidden;  // [3 * dim, dim]
  int64_t dim = 0;

  Gru() = default;
  Gru(const Weights& weights, const std::string& name, int64_t input_dim, int64_t state_dim)
      : input(weights.matrix(name + ".input_weight", name + ".input_bias", 3 * state_dim, input_dim)),
        hidden(weights.matrix(name + ".hidden_weight", name + ".hidden_bias", 3 * state_dim, state_dim)),
        dim(state_dim) {}
};

}  // namespace quickbeam
