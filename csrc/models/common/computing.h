// How the products of a model are computed.
#pragma once

#include <cstdint>

#include "linear/linear.h"

namespace sharpbeam {

// The type of all products, and the steps of SHARP section 4 that spare some of them. A step changes the order of a few
// sums, so the last bits; it can be left out for comparisons.
struct Computing {
  ComputeType type = ComputeType::float32;
  int64_t precomputed_embeddings = 0;  // 4.2: words, the first of the vocabulary, whose products are kept
  bool precomputed_attention = false;  // 4.3: what reads the source's memory is computed once for each position of it
  bool merge_states = true;            // 4.5: siblings share the products of their state
};

}  // namespace sharpbeam
