// The facts of a transformer, as in src/sharpbeam/models/transformer/config.py, which says what each one means.
#pragma once

#include <cstdint>

namespace sharpbeam {

enum class Activation { relu, gelu, gelu_sigmoid, swish };
enum class Positions { sinusoidal, sinusoidal_t2t, learned, none };
enum class DecoderKind { attention, ssru };

struct TransformerConfig {
  int64_t source_vocab_size = 0;
  int64_t target_vocab_size = 0;
  int64_t hidden_dim = 0;
  int64_t encoder_layers = 0;
  int64_t decoder_layers = 0;
  int64_t encoder_heads = 0;
  int64_t decoder_heads = 0;
  int64_t encoder_ffn_dim = 0;
  int64_t decoder_ffn_dim = 0;
  int64_t position_offset = 0;
  int64_t max_positions = 0;
  float norm_epsilon = 1e-5f;
  bool norm_before = true;
  bool encoder_final_norm = true;
  bool decoder_final_norm = true;
  bool embedding_norm = false;
  bool gated_ffn = false;
  bool scaled_embedding = true;
  bool shared_embedding = false;
  bool attention_bias = true;
  bool ffn_bias = true;
  bool ssru_projection = false;
  Activation activation = Activation::relu;
  Positions positions = Positions::sinusoidal;
  DecoderKind decoder_kind = DecoderKind::attention;

  // What keeps vectors that stand one behind the other from falling into the same few lines of a cache.
  static constexpr int64_t kApart = 16;
  // Floats of one word in the decoder's caches: each layer's key and value, or its cell.
  int64_t word_dim() const {
    return decoder_layers * hidden_dim * (decoder_kind == DecoderKind::ssru ? 1 : 2) + kApart;
  }

  // Throws std::invalid_argument unless the sizes are positive and fit each other.
  void check() const;
};

}  // namespace sharpbeam
