// The facts of a recurrent model, as in src/sharpbeam/models/gru/config.py, which says what each one means.
#pragma once

#include <cstdint>

namespace sharpbeam {

enum class DecoderCell { conditional, attentional };
enum class AttentionKind { mlp, tanh_dot, general };  // a recurrent model has one of the first two
enum class Top { none, tanh, gru };
enum class TopStart { zero, bottom };
enum class Readout { none, linear, tanh };

struct GruConfig {
  int64_t source_vocab_size = 0;
  int64_t target_vocab_size = 0;
  int64_t embedding_dim = 0;
  int64_t encoder_layers = 0;
  int64_t encoder_dim = 0;
  int64_t decoder_dim = 0;
  int64_t attention_dim = 0;
  int64_t fc_layers = 0;
  int64_t fc_dim = 0;
  int64_t top_dim = 0;
  int64_t hidden_dim = 0;
  DecoderCell decoder_cell = DecoderCell::conditional;
  AttentionKind attention = AttentionKind::mlp;
  Top top = Top::none;
  TopStart top_start = TopStart::zero;
  Readout readout = Readout::linear;
  bool shared_embedding = false;

  int64_t memory_dim() const { return 2 * encoder_dim; }
  int64_t stack_dim() const {
    if (top != Top::none) return top_dim;
    return fc_layers ? fc_dim : decoder_dim;
  }
  // Width of a row's state: the bottom state, then the top GRU's where there is one.
  int64_t state_dim() const { return decoder_dim + (top == Top::gru ? top_dim : 0); }

  // Throws std::invalid_argument unless the sizes are positive and fit each other.
  void check() const;
};

}  // namespace sharpbeam
