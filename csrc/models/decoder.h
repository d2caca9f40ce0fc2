// The decoder's step: bottom cell with attention, fully connected layers, top layer and readout.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/buffer.h"
#include "models/attention.h"
#include "models/config.h"
#include "models/gru.h"
#include "models/rows.h"

namespace quickbeam {

// Scratch of one decoding run; it only grows, so a warm step allocates nothing.
struct StepBuffers {
  Buffer words, recurrent, gates, between, queries, shared_queries, scores, contexts, bottom, joined;
  Buffer stack[3], top_recurrent, top;
  LinearInput rounded;
};

class Decoder {
 public:
  Decoder(const Weights& weights, const RecurrentConfig& config);

  // Initial state [state_dim] of a request: tanh of an affine map of the mean memory; a top GRU starts at zero.
  void begin(const Kernels& table, const Source& source, float* state) const;

  // hidden [R, D] and the new states. Allocates only where `buffers` is too small.
  void step(const Kernels& table, const StepRows& step, StepBuffers& buffers, float* hidden) const;

  const Attention& attention() const { return attention_; }

 private:
  // All return arrays that live in `buffers`.
  const float* bottom(const Kernels& table, const StepRows& step, StepBuffers& buffers, const float* words,
                      float* contexts) const;  // [R, H]
  const float* stack(const Kernels& table, int64_t rows, StepBuffers& buffers, const float* below) const;
  const float* top(const Kernels& table, const StepRows& step, StepBuffers& buffers, const float* below) const;

  RecurrentConfig config_;
  Array embedding_;  // [V, E]
  Linear bridge_;
  Gru first_, second_;  // second_: conditional cell only
  Attention attention_;
  std::vector<Linear> fc_;
  Linear top_;   // top = tanh
  Gru top_gru_;  // top = gru
  Linear readout_;
};

}  // namespace quickbeam
