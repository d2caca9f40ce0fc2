#include "models/gru/config.h"

#include <stdexcept>
#include <string>

#include "models/common/sources.h"

namespace sharpbeam {
void GruConfig::check() const {
  check_size("source_vocab_size", source_vocab_size, 1);
  check_size("target_vocab_size", target_vocab_size, 1);
  check_size("embedding_dim", embedding_dim, 1);
  check_size("encoder_layers", encoder_layers, 1);
  check_size("encoder_dim", encoder_dim, 1);
  check_size("decoder_dim", decoder_dim, 1);
  check_size("attention_dim", attention_dim, 1);
  check_size("fc_layers", fc_layers, 0);
  check_size("fc_dim", fc_dim, fc_layers ? 1 : 0);
  check_size("top_dim", top_dim, top != Top::none ? 1 : 0);
  if (top_start == TopStart::bottom && (top != Top::gru || top_dim != decoder_dim))
    throw std::invalid_argument("top_start is bottom; it needs top = gru, and a top_dim of decoder_dim, " +
                                std::to_string(decoder_dim) + ".");
  check_size("hidden_dim", hidden_dim, 1);
  if (readout == Readout::none && hidden_dim != stack_dim())
    throw std::invalid_argument("hidden_dim is " + std::to_string(hidden_dim) +
                                "; without a readout it must be the top layer's width, " + std::to_string(stack_dim()) +
                                ".");
  if (shared_embedding && source_vocab_size != target_vocab_size)
    throw std::invalid_argument("shared_embedding needs source_vocab_size = target_vocab_size, but they are " +
                                std::to_string(source_vocab_size) + " and " + std::to_string(target_vocab_size) + ".");
}

}  // namespace sharpbeam
