// The config of a GRU translation model: the fields of src/sharpbeam/models/gru/config.py, which explains each, except
// those about ids and the output layer.
#pragma once

#include <array>
#include <cstdint>

#include "models/common/attention.h"
#include "models/common/config.h"

namespace sharpbeam {

enum class DecoderCell { conditional, attentional };
enum class Top { none, tanh, gru };
enum class TopStart { zero, bottom };
enum class Readout { none, linear, tanh };

constexpr auto choice_names(DecoderCell) { return std::array{"conditional", "attentional"}; }
constexpr auto choice_names(Top) { return std::array{"none", "tanh", "gru"}; }
constexpr auto choice_names(TopStart) { return std::array{"zero", "bottom"}; }
constexpr auto choice_names(Readout) { return std::array{"none", "linear", "tanh"}; }

#define SHARPBEAM_GRU_FIELDS(SIZE, NUMBER, FLAG, CHOICE) \
  SIZE(source_vocab_size, 1)                             \
  SIZE(target_vocab_size, 1)                             \
  SIZE(embedding_dim, 1)                                 \
  SIZE(encoder_layers, 1)                                \
  SIZE(encoder_dim, 1)                                   \
  SIZE(decoder_dim, 1)                                   \
  SIZE(attention_dim, 1)                                 \
  SIZE(fc_layers, 0)                                     \
  SIZE(fc_dim, 0)                                        \
  SIZE(top_dim, 0)                                       \
  SIZE(hidden_dim, 1)                                    \
  CHOICE(DecoderCell, decoder_cell, conditional)         \
  CHOICE(AttentionKind, attention, mlp)                  \
  CHOICE(Top, top, none)                                 \
  CHOICE(TopStart, top_start, zero)                      \
  CHOICE(Readout, readout, linear)                       \
  FLAG(shared_embedding, false)

struct GruConfig {
  SHARPBEAM_CONFIG(SHARPBEAM_GRU_FIELDS)

  int64_t memory_dim() const { return 2 * encoder_dim; }
  // Width of the uppermost decoder layer, below the readout.
  int64_t stack_dim() const {
    if (top != Top::none) return top_dim;
    return fc_layers ? fc_dim : decoder_dim;
  }
  // Width of a state: the bottom cell's, then the top GRU's if there is one.
  int64_t state_dim() const { return decoder_dim + (top == Top::gru ? top_dim : 0); }
};

}  // namespace sharpbeam
