// The decoder's step: bottom cell with attention, fully connected layers, top layer and readout.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "models/common/attention.h"
#include "models/common/precomputed_embeddings.h"
#include "models/common/rows.h"
#include "models/common/stacked.h"
#include "models/gru/config.h"
#include "models/gru/gru.h"

namespace sharpbeam {

// Scratch of one decoding run; it only grows, so a warm step allocates nothing.
struct StepBuffers {
  PrecomputedEmbeddings::Buffers words;
  Buffer apart, recurrent, gates, between, queries, scores, contexts, mixed, bottom, joint;
  Buffer stack[3], top_recurrent, top;
  LinearInput rounded;
  std::vector<int32_t> itself;
};

// Every product that reads the same input is part of one matrix: what reads a word (the first cell's input, the
// attentional cell's query, the readout), what reads a state of the last step, what reads the context.
class Decoder {
 public:
  Decoder(const Kernels& table, const Weights& weights, const GruConfig& config);

  // Initial state [state_dim] of a request: tanh of an affine map of the mean memory; a top GRU's as the config says.
  void begin(const Kernels& table, const Source& source, float* state) const;
  // Where products of the source are kept, puts them into the place of the memory, which no step reads then.
  void prepare(const Kernels& table, std::vector<Source>& sources) const;

  // hidden [R, D] and the new states. Allocates only where `buffers` is too small.
  void step(const Kernels& table, const StepRows& step, StepBuffers& buffers, float* hidden) const;

  const Attention& attention() const { return attention_; }

 private:
  // What the bottom cell gives, in `buffers`.
  struct Bottom {
    const float* state;        // [R, H]
    const float* mixed;        // [R, out of context_]: what is read of the context
    const float* const* word;  // [R] rows of out of word_: what is read of the word
  };
  void add_cell(const Weights& weights, Joined& word, Joined& state, Joined& context);

  // All return arrays that live in `buffers`.
  StepRows apart(const StepRows& step, StepBuffers& buffers) const;  // siblings with a copy each of their state
  Bottom bottom(const Kernels& table, const StepRows& step, StepBuffers& buffers) const;
  const float* mix(const Kernels& table, float* queries, const StepRows& step, StepBuffers& buffers) const;
  const float* stack(const Kernels& table, int64_t rows, StepBuffers& buffers, const float* below) const;
  const float* top(const Kernels& table, const StepRows& step, StepBuffers& buffers, const float* below) const;
  bool attentional() const { return config_.decoder_cell == DecoderCell::attentional; }

  GruConfig config_;
  Computing computing_;
  Linear bridge_;
  PrecomputedEmbeddings word_;  // [3 H (+ A: attentional) (+ D: readout), E]
  Linear state_;                // [3 H (+ A: attentional), H]
  Linear between_;              // [3 H + A, H], of the state between both cells: conditional only
  Linear context_;              // [3 H (+ D: readout), M]
  Attention attention_;
  std::vector<Linear> fc_;
  Linear top_;      // top = tanh
  Gru top_gru_;     // top = gru
  Linear readout_;  // [D, stack_dim]: what the readout reads of the top
};

}  // namespace sharpbeam
