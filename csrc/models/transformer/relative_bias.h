// The bias of self-attention scores by relative position (Raffel et al. 2020): a number for each head and bucket of
// distances. Positions that are further apart than a bound share the last bucket.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "models/common/weights.h"
#include "models/transformer/config.h"

namespace sharpbeam {

enum class Side { encoder, decoder };

class RelativeBias {
 public:
  // `name` is a tensor [relative_buckets, heads]. The encoder's queries see keys in both directions.
  RelativeBias(const Weights& weights, const std::string& name, const TransformerConfig& config, Side side);

  // Adds to the scores [H, size] of the query at position `query` over keys at positions 0 .. size - 1.
  void add(const Kernels& table, int64_t query, int64_t size, float* scores) const;

 private:
  int64_t heads_, distance_;
  Buffer bias_;  // [H, 2 * distance + 1], by key - query + distance
};

// The biases of a side: one for each layer, one for all layers, or none.
class RelativeBiases {
 public:
  RelativeBiases(const Weights& weights, const TransformerConfig& config, Side side);

  // That of a layer; null where there is none.
  const RelativeBias* of(int64_t layer) const {
    return biases_.empty() ? nullptr : &biases_[biases_.size() == 1 ? 0 : layer];
  }

 private:
  std::vector<RelativeBias> biases_;
};

}  // namespace sharpbeam
