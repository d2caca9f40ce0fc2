// The encoder: layers of bidirectional GRUs (CUBE eq. 1-3) over ragged sources, without padding.
#pragma once

#include <cstdint>
#include <vector>

#include "models/config.h"
#include "models/gru.h"

namespace quickbeam {

// Sources one behind the other; every length is 1 or more and every token lies in the vocabulary.
struct Sources {
  const int32_t* token;   // [positions]
  const int32_t* length;  // [count]
  int64_t count;
  int64_t positions;  // sum of the lengths
};

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
