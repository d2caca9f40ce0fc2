// The config of a transformer: the fields of src/sharpbeam/models/transformer/config.py, which explains each, except
// those about ids and the output layer.
#pragma once

#include <array>
#include <cstdint>

#include "models/common/config.h"

namespace sharpbeam {

enum class NormPlacement { post, pre };
enum class NormKind { layer, rms };
enum class Activation { relu, gelu, gelu_sigmoid, gelu_tanh, swish };
enum class Positions { sinusoidal, sinusoidal_t2t, learned, relative, relative_shared, none };
enum class DecoderKind { attention, ssru };

constexpr auto choice_names(NormPlacement) { return std::array{"post", "pre"}; }
constexpr auto choice_names(NormKind) { return std::array{"layer", "rms"}; }
constexpr auto choice_names(Activation) { return std::array{"relu", "gelu", "gelu_sigmoid", "gelu_tanh", "swish"}; }
constexpr auto choice_names(Positions) {
  return std::array{"sinusoidal", "sinusoidal-t2t", "learned", "relative", "relative-shared", "none"};
}
constexpr auto choice_names(DecoderKind) { return std::array{"attention", "ssru"}; }

#define SHARPBEAM_TRANSFORMER_FIELDS(SIZE, NUMBER, FLAG, CHOICE)       \
  SIZE(source_vocab_size, 1)                                           \
  SIZE(target_vocab_size, 1)                                           \
  SIZE(hidden_dim, 1)                                                  \
  SIZE(encoder_layers, 1)                                              \
  SIZE(decoder_layers, 1)                                              \
  SIZE(encoder_heads, 1)                                               \
  SIZE(decoder_heads, 1)                                               \
  SIZE(head_dim, 0)                                                    \
  SIZE(encoder_ffn_dim, 1)                                             \
  SIZE(decoder_ffn_dim, 1)                                             \
  SIZE(position_offset, 0)                                             \
  SIZE(max_positions, 0)                                               \
  SIZE(relative_buckets, 0)                                            \
  SIZE(relative_distance, 0)                                           \
  SIZE(experts, 0)                                                     \
  SIZE(encoder_expert_step, 0)                                         \
  SIZE(decoder_expert_step, 0)                                         \
  NUMBER(norm_epsilon, 1e-5f)                                          \
  CHOICE(NormPlacement, norm, pre)                                     \
  CHOICE(NormKind, norm_kind, layer)                                   \
  FLAG(encoder_final_norm, true)                                       \
  FLAG(decoder_final_norm, true)                                       \
  FLAG(embedding_norm, false)                                          \
  FLAG(gated_ffn, false)                                               \
  FLAG(scaled_embedding, true)                                         \
  FLAG(shared_embedding, false)                                        \
  FLAG(scaled_attention, true)                                         \
  FLAG(attention_bias, true)                                           \
  FLAG(ffn_bias, true)                                                 \
  FLAG(router_bias, false)                                             \
  FLAG(normalized_gates, true)                                         \
  FLAG(ssru_projection, false) /* vocabulary: a name in config.json */ \
  CHOICE(Activation, activation, relu)                                 \
  CHOICE(Positions, positions, sinusoidal)                             \
  CHOICE(DecoderKind, decoder_kind, attention)

struct TransformerConfig {
  SHARPBEAM_CONFIG(SHARPBEAM_TRANSFORMER_FIELDS)

  // Whether the decoder's self-attention or SSRU has an output matrix; self-attention always has.
  bool self_out() const { return decoder_kind == DecoderKind::attention || ssru_projection; }  // vocabulary: as above

  // Whether the feed-forward part of layer `layer` is a mixture of experts, where every `step`-th one is.
  static bool is_mixture(int64_t step, int64_t layer) { return step > 0 && (layer + 1) % step == 0; }

  // Width of the queries, keys and values of `heads` heads together.
  int64_t attention_dim(int64_t heads) const { return heads * (head_dim > 0 ? head_dim : hidden_dim / heads); }

  // Padding so that consecutive KV vectors do not map to the same cache sets.
  static constexpr int64_t kKvPadding = 16;
  // Floats that one token adds to the KV cache: a key and a value of each layer, or the cell of each SSRU.
  int64_t kv_floats_per_token() const {
    const int64_t width = decoder_kind == DecoderKind::ssru ? hidden_dim : 2 * attention_dim(decoder_heads);
    return decoder_layers * width + kKvPadding;
  }
};

}  // namespace sharpbeam
