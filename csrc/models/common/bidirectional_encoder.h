// A recurrent encoder: layers of bidirectional cells (CUBE eq. 1-3) over sources of any lengths, without padding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/common/sources.h"
#include "models/common/weights.h"

namespace sharpbeam {

template <typename Cell>  // GruCell or LstmCell
class BidirectionalEncoder {
 public:
  // `layers` of cells of width `dim` over the embedding table `embedding` [vocab_size, embedding_dim]. With `residual`
  // a layer adds its input to its output, from layer kResidualFrom on.
  BidirectionalEncoder(const Weights& weights, const std::string& embedding, int64_t vocab_size, int64_t embedding_dim,
                       int64_t layers, int64_t dim, bool residual = false);

  // Memory [positions, M]: the concatenated outputs of both directions of the last layer, M = 2 * dim. Unless `last` is
  // null, it receives [count, layers, Cell::kStateVectors, M]: the state after the last token of the forward direction,
  // and after the first token of the backward direction. Allocates.
  std::vector<float> encode(const Kernels& table, const Sources& sources, float* last = nullptr) const;

 private:
  struct Layer {
    Cell forwards, backwards;
  };

  Array embedding_;  // [V, E]
  int64_t embedding_dim_;
  bool residual_;
  std::vector<Layer> layers_;
};

}  // namespace sharpbeam
