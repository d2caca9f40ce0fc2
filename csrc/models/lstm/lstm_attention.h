// An LSTM translation model with attention on the CPU, from token ids to hidden vectors: the native twin of
// models/lstm/module.py.
//
// The bits of a row depend on that row alone: not on the other rows, the order of the calls, or the table.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "kernels/table.h"
#include "models/common/attention.h"
#include "models/common/bidirectional_encoder.h"
#include "models/common/config.h"
#include "models/common/decoding.h"
#include "models/lstm/lstm.h"

namespace sharpbeam {

// The fields of src/sharpbeam/models/lstm/config.py, which explains each.
#define SHARPBEAM_LSTM_ATTENTION_FIELDS(SIZE, NUMBER, FLAG, CHOICE) \
  SIZE(source_vocab_size, 1)                                        \
  SIZE(target_vocab_size, 1)                                        \
  SIZE(embedding_dim, 1)                                            \
  SIZE(layers, 1)                                                   \
  SIZE(hidden_dim, 2)                                               \
  FLAG(shared_embedding, false)                                     \
  FLAG(residual, false)

struct LstmAttentionConfig {
  SHARPBEAM_CONFIG(SHARPBEAM_LSTM_ATTENTION_FIELDS)

  // Width of a state: the hidden vector as the input feed, then the output and the cell of each layer.
  int64_t state_dim() const { return (1 + layers * LstmCell::kStateVectors) * hidden_dim; }
};

// The packed weights. Immutable, so any number of runs in any number of threads can share them.
class LstmAttention {
 public:
  // Scratch memory of one decoding run; it only grows, so a warm step allocates nothing.
  struct Buffers {
    LstmBuffers stack;
    Buffer scores, contexts, concatenated;
  };

  // Throws std::invalid_argument where hidden_dim is odd, or a tensor is missing or does not have the shape that the
  // config implies.
  LstmAttention(const LstmAttentionConfig& config, const Weights& weights, const Kernels& table);

  // Encodes `sources`; writes their initial states [count, state_dim]. Allocates.
  std::vector<EncodedSource> encode(const Sources& sources, float* states) const;
  // Writes hidden [R, D] and the new states. Allocates only where `buffers` is too small.
  void step(const StepRows& rows, Buffers& buffers, float* hidden) const;

  const LstmAttentionConfig& config() const { return config_; }
  const Kernels& table() const { return table_; }

 private:
  LstmAttentionConfig config_;
  const Kernels& table_;
  BidirectionalEncoder<LstmCell> encoder_;
  Array embedding_;  // [V, E]
  LstmStack stack_;
  Attention attention_;
  Linear readout_;  // [D, 2 D]
};

using LstmAttentionDecoding = RecurrentTranslationDecoding<LstmAttention>;

}  // namespace sharpbeam
