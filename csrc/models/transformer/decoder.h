// The decoder's step: for each row one word behind the path of its state, and attention to its source.
#pragma once

#include <cstdint>
#include <vector>

#include "models/common/path_pool.h"
#include "models/common/sources.h"
#include "models/transformer/layers.h"

namespace sharpbeam {

// What the decoder keeps of one encoded request: for each layer every position's key and value, as Heads packs them.
struct TransformerSource {
  int64_t positions = 0;  // S
  Buffer memory;          // [L, heads.packed(S)]
};

// R rows of one step.
struct TransformerRows {
  int64_t rows;
  const int32_t* token;                    // [R]
  const TransformerSource* const* source;  // [R]
  const int32_t* before;                   // [R] the states that the words are fed to
  const int32_t* behind;                   // [R] the fresh states, whose floats are to be filled
  float* attention = nullptr;              // [R, width], zero, where attention weights go; null where nobody asks
  int64_t width = 0;                       // no less than the longest source
};

class TransformerDecoder {
 public:
  TransformerDecoder(const Weights& weights, const TransformerConfig& config);

  // What stays of each of `sources`, whose encoded words [positions, D] are not in buffers.projected.
  std::vector<TransformerSource> remember(const Kernels& table, const Sources& sources, const float* encoded,
                                          TransformerBuffers& buffers) const;

  // hidden [R, D] and the floats of the fresh states. Allocates only where `buffers` are too small.
  void step(const Kernels& table, const TransformerRows& step, PathPool& pool, TransformerBuffers& buffers,
            float* hidden) const;

 private:
  struct Layer {
    Sublayer self_sublayer, cross_sublayer;
    Linear self, self_out;  // queries, keys and values, or the recurrent unit's two; self_out may be none
    Linear query, key_value, cross_out;
    FeedForward ffn;
  };

  // Where the keys and values of each row's words lie.
  void lay_out(const TransformerRows& step, PathPool& pool, TransformerBuffers& buffers) const;
  void look_back(const Kernels& table, const TransformerRows& step, PathPool& pool, int64_t layer,
                 TransformerBuffers& buffers) const;
  void recur(const Kernels& table, const TransformerRows& step, PathPool& pool, int64_t layer,
             TransformerBuffers& buffers) const;
  void look_across(const Kernels& table, const TransformerRows& step, int64_t layer, TransformerBuffers& buffers) const;

  TransformerConfig config_;
  int64_t dim_;
  Embedding embedding_;
  Heads heads_;
  std::vector<Layer> layers_;
  Norm norm_;
};

}  // namespace sharpbeam
