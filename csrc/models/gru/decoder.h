// The step of a GRU decoder: bottom cell with attention, fully connected layers, top layer and readout.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "models/common/attention.h"
#include "models/common/precomputed_embeddings.h"
#include "models/common/rows.h"
#include "models/common/stacked.h"
#include "models/gru/cell.h"
#include "models/gru/config.h"

namespace sharpbeam {

// Scratch memory of one decoding run; it only grows, so a warm step allocates nothing.
struct GruBuffers {
  PrecomputedEmbeddings::Buffers embeddings;
  Buffer states, recurrent, gates, intermediate, queries, scores, contexts, from_context, bottom, stacked;
  Buffer fc[3], top_recurrent, top;
  LinearInput input;
  std::vector<int32_t> own_parent;
};

// All matrices that read the same input are stacked into one: those that read the token (the first cell, the
// attentional cell's query, the readout), those that read the previous state, and those that read the context.
class GruDecoder {
 public:
  GruDecoder(const Kernels& table, const Weights& weights, const GruConfig& config);

  // Initial state [state_dim] of a request: the bottom state is tanh of a linear layer of the mean memory.
  void begin(const Kernels& table, const EncodedSource& source, float* state) const;
  // With precomputed attention (SHARP 4.3), replaces the values of the sources by the outputs of the matmuls that read
  // the context.
  void precompute(const Kernels& table, std::vector<EncodedSource>& sources) const;

  // Writes hidden [R, D] and the new states. Allocates only where `buffers` is too small.
  void step(const Kernels& table, const StepRows& step, GruBuffers& buffers, float* hidden) const;

  const Attention& attention() const { return attention_; }

 private:
  // The output of the bottom cell, in `buffers`.
  struct Bottom {
    const float* state;         // [R, H]
    const float* from_context;  // [R, out of context_]
    const float* const* token;  // [R] rows of [out of token_]
  };
  void add_cell(const Weights& weights, StackedWeights& token, StackedWeights& state, StackedWeights& context);

  // All return arrays in `buffers`.
  StepRows unmerged(const StepRows& step, GruBuffers& buffers) const;  // each row with its own copy of its parent
  Bottom bottom(const Kernels& table, const StepRows& step, GruBuffers& buffers) const;
  const float* attend(const Kernels& table, float* queries, const StepRows& step, GruBuffers& buffers) const;
  const float* fully_connected(const Kernels& table, int64_t rows, GruBuffers& buffers, const float* below) const;
  const float* top(const Kernels& table, const StepRows& step, GruBuffers& buffers, const float* below) const;
  bool attentional() const { return config_.decoder_cell == DecoderCell::attentional; }

  GruConfig config_;
  ComputeOptions options_;
  Linear bridge_;                // [H, M], of the mean memory
  PrecomputedEmbeddings token_;  // [3 H (+ A: attentional) (+ D: readout), E]
  Linear state_;                 // [3 H (+ A: attentional), H]
  Linear intermediate_;          // [3 H + A, H], of the state between both cells: conditional only
  Linear context_;               // [3 H (+ D: readout), M]
  Attention attention_;
  std::vector<Linear> fc_;
  Linear top_;       // top = tanh
  GruCell top_gru_;  // top = gru
  Linear readout_;   // [D, stack_dim]: the part of the readout that reads the top layer
};

}  // namespace sharpbeam
