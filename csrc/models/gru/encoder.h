// The encoder: layers of bidirectional recurrent cells (CUBE eq. 1-3) over ragged sources, without padding.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/common/sources.h"
#include "models/common/weights.h"

namespace sharpbeam {

template <typename Cell>  // Gru or Lstm
class Encoder {
 public:
  // `layers` of cells `dim` wide over the words of the table `embedding` [vocab_size, embedding_dim]. With `residual`
  // a layer adds what is below, from kResidualFrom on.
  Encoder(const Weights& weights, const std::string& embedding, int64_t vocab_size, int64_t embedding_dim,
          int64_t layers, int64_t dim, bool residual = false);

  // Memory [positions, M]: both directions' outputs of the last layer side by side. Where `last` is not null, it gets
  // [count, layers, Cell::kParts, M]: the states behind the last word (forwards) and the first (backwards). Allocates.
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
