// The encoder: layers of bidirectional GRUs (CUBE eq. 1-3) over ragged sources, without padding.
#pragma once

#include <cstdint>
#include <vector>

#include "models/config.h"
#include "models/gru.h"
#include "models/sources.h"

namespace quickbeam {

class Encoder {
 public:
  Encoder(const Weights& weights, const RecurrentConfig& config);

  // Memory [positions, M]: both directions' states of the last layer side by side. Allocates.
  std::vector<float> encode(const Kernels& table, const Sources& sources) const;

 private:
  struct Layer {
    Gru forwards, backwards;
  };

  Array embedding_;  // [V, E]
  int64_t embedding_dim_;
  std::vector<Layer> layers_;
};

}  // namespace quickbeam
