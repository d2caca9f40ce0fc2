// The step of the decoder: each row extends its state by one token, and attends to its source.
#pragma once

#include <cstdint>
#include <vector>

#include "models/common/kv_cache_tree.h"
#include "models/common/sources.h"
#include "models/transformer/layers.h"

namespace sharpbeam {

// The encoding of one request: the keys and values of each decoder layer's cross-attention.
struct CrossAttentionCache {
  int64_t positions = 0;  // S
  Buffer key_values;      // [L, heads.packed(S)]
};

// R rows of one step.
struct TransformerRows {
  int64_t rows;
  const int32_t* token;                      // [R]
  const CrossAttentionCache* const* source;  // [R]
  const int32_t* parent;                     // [R] the states that the tokens are fed to
  const int32_t* state;                      // [R] the new states, whose floats the step writes
  float* attention = nullptr;                // [R, width], zeros, where to write attention weights, or null
  int64_t width = 0;                         // at least the length of the longest source
};

class TransformerDecoder {
 public:
  TransformerDecoder(const Weights& weights, const TransformerConfig& config);

  // The cross-attention caches of `sources`, from the encoder's output [positions, D], which must not be in
  // buffers.qkv.
  std::vector<CrossAttentionCache> cross_attention_caches(const Kernels& table, const Sources& sources,
                                                          const float* encoded, TransformerBuffers& buffers) const;

  // Writes hidden [R, D] and the floats of the new states. Allocates only where `buffers` are too small.
  void step(const Kernels& table, const TransformerRows& step, KvCacheTree& cache, TransformerBuffers& buffers,
            float* hidden) const;

 private:
  struct Layer {
    const RelativeBias* bias;
    Residual self_residual, cross_residual;
    Linear self, self_out;  // queries, keys and values, or the two inputs of an SSRU, which may have no self_out
    Linear query, key_value, cross_out;
    FeedForward ffn;
  };

  // Collects the addresses of the keys and values of each row's tokens.
  void gather_positions(const TransformerRows& step, KvCacheTree& cache, TransformerBuffers& buffers) const;
  void self_attention(const Kernels& table, const TransformerRows& step, KvCacheTree& cache, int64_t layer,
                      TransformerBuffers& buffers) const;
  void ssru(const Kernels& table, const TransformerRows& step, KvCacheTree& cache, int64_t layer,
            TransformerBuffers& buffers) const;
  void cross_attention(const Kernels& table, const TransformerRows& step, int64_t layer,
                       TransformerBuffers& buffers) const;

  TransformerConfig config_;
  int64_t dim_;
  Embedding embedding_;
  Heads heads_;
  RelativeBiases biases_;
  std::vector<Layer> layers_;
  Norm norm_;
};

}  // namespace sharpbeam
