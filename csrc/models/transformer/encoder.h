// The encoder: sources of any lengths, concatenated without padding, so that each matmul reads all their tokens at
// once.
#pragma once

#include <cstdint>
#include <vector>

#include "models/common/sources.h"
#include "models/transformer/layers.h"

namespace sharpbeam {

class TransformerEncoder {
 public:
  TransformerEncoder(const Weights& weights, const TransformerConfig& config);

  // The output of the last layer [positions, D], in buffers.x. Allocates where `buffers` are too small.
  const float* encode(const Kernels& table, const Sources& sources, TransformerBuffers& buffers) const;

 private:
  struct Layer {
    const RelativeBias* bias;
    Residual residual;
    Linear qkv, out;
    FeedForward ffn;
  };

  void self_attention(const Kernels& table, const Layer& layer, const Sources& sources,
                      TransformerBuffers& buffers) const;

  int64_t dim_;
  Embedding embedding_;
  Heads heads_;
  RelativeBiases biases_;
  std::vector<Layer> layers_;
  bool final_norm_;
  Norm norm_;
};

}  // namespace sharpbeam
