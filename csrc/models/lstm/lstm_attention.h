// An LSTM translation model with attention on the CPU: ids -> hidden vectors, the native twin of
// models/lstm/module.py.
//
// A row's answer depends on that row alone, in bytes: not on its neighbours, the order of the calls, or the table.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "kernels/table.h"
#include "models/common/attention.h"
#include "models/common/decoding.h"
#include "models/gru/encoder.h"
#include "models/lstm/lstm.h"

namespace sharpbeam {

// The facts, as in src/sharpbeam/models/lstm/config.py, which says what each one means.
struct LstmAttentionConfig {
  int64_t source_vocab_size = 0;
  int64_t target_vocab_size = 0;
  int64_t embedding_dim = 0;
  int64_t layers = 0;
  int64_t hidden_dim = 0;
  bool shared_embedding = false;
  bool residual = false;

  // Width of a state: the hidden vector that is fed back, then each layer's output and cell.
  int64_t state_dim() const { return (1 + layers * Lstm::kParts) * hidden_dim; }

  // Throws std::invalid_argument unless all sizes are positive and fit each other.
  void check() const;
};

// The weights, packed; immutable, so any number of runs in any number of threads share one.
class LstmAttention {
 public:
  // Scratch of one decoding run; it only grows, so a warm step allocates nothing.
  struct Buffers {
    LstmBuffers stack;
    Buffer scores, contexts, joined;
  };

  // Throws std::invalid_argument where a tensor is missing or does not have the shape that the config asks for.
  LstmAttention(const LstmAttentionConfig& config, const Weights& weights, const Kernels& table);

  // What stays of each of `sources`; their initial states [count, state_dim] go to `states`. Allocates.
  std::vector<Source> encode(const Sources& sources, float* states) const;
  // hidden [R, D] and the new states. Allocates only where `buffers` is too small.
  void step(const StepRows& rows, Buffers& buffers, float* hidden) const;

  const LstmAttentionConfig& config() const { return config_; }
  const Kernels& table() const { return table_; }

 private:
  LstmAttentionConfig config_;
  const Kernels& table_;
  Encoder<Lstm> encoder_;
  Array embedding_;  // [V, E]
  LstmStack stack_;
  Attention attention_;
  Linear readout_;  // [D, 2 D]
};

using LstmAttentionDecoding = TranslationDecoding<LstmAttention>;

}  // namespace sharpbeam
