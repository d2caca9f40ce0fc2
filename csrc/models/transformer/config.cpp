#include "models/transformer/config.h"

#include <stdexcept>
#include <string>

#include "models/common/sources.h"

namespace sharpbeam {

void TransformerConfig::check() const {
  check_size("source_vocab_size", source_vocab_size, 1);
  check_size("target_vocab_size", target_vocab_size, 1);
  check_size("hidden_dim", hidden_dim, 1);
  check_size("encoder_layers", encoder_layers, 1);
  check_size("decoder_layers", decoder_layers, 1);
  check_size("encoder_heads", encoder_heads, 1);
  check_size("decoder_heads", decoder_heads, 1);
  check_size("encoder_ffn_dim", encoder_ffn_dim, 1);
  check_size("decoder_ffn_dim", decoder_ffn_dim, 1);
  check_size("position_offset", position_offset, 0);
  check_size("max_positions", max_positions, positions == Positions::learned ? 1 : 0);
  for (const int64_t heads : {encoder_heads, decoder_heads})
    if (hidden_dim % heads != 0)
      throw std::invalid_argument("hidden_dim is " + std::to_string(hidden_dim) + "; it must be a multiple of the " +
                                  std::to_string(heads) + " heads.");
  const bool sines = positions == Positions::sinusoidal || positions == Positions::sinusoidal_t2t;
  if (sines && (hidden_dim % 2 != 0 || hidden_dim < 4))
    throw std::invalid_argument("hidden_dim is " + std::to_string(hidden_dim) +
                                "; with sinusoidal positions it must be even, and 4 or more.");
}

}  // namespace sharpbeam
