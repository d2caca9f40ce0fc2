// How a model computes its matmuls.
#pragma once

#include <cstdint>

#include "linear/linear.h"

namespace sharpbeam {

// The number type of all matmuls, and the precomputations of SHARP section 4 that save some of them. That of attention
// changes the order of a few sums, and with it last bits; the others change none.
struct ComputeOptions {
  ComputeType type = ComputeType::float32;
  int64_t precomputed_embeddings = 0;  // 4.2: how many tokens, the first of the vocabulary, have their matmuls cached
  bool precomputed_attention = false;  // 4.3: matmuls that read the attention context are computed for each position
  bool merge_states = true;            // 4.5: rows with the same state share the matmuls of that state
};

}  // namespace sharpbeam
