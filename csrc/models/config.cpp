#include "models/config.h"

#include <stdexcept>
#include <string>

namespace quickbeam {
namespace {

// Far above any real model, and far below where a product of two sizes overflows.
constexpr int64_t kLargest = int64_t{1} << 28;

void require(const char* name, int64_t value, int64_t least) {
  if (value >= least && value <= kLargest) return;
  throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) + "; it must be between " +
                              std::to_string(least) + " and " + std::to_string(kLargest) + ".");
}

}  // namespace

void RecurrentConfig::check() const {
  require("source_vocab_size", source_vocab_size, 1);
  require("target_vocab_size", target_vocab_size, 1);
  require("embedding_dim", embedding_dim, 1);
  require("encoder_layers", encoder_layers, 1);
  require("encoder_dim", encoder_dim, 1);
  require("decoder_dim", decoder_dim, 1);
  require("attention_dim", attention_dim, 1);
  require("fc_layers", fc_layers, 0);
  require("fc_dim", fc_dim, fc_layers ? 1 : 0);
  require("top_dim", top_dim, top != Top::none ? 1 : 0);
  require("hidden_dim", hidden_dim, 1);
  if (readout == Readout::none && hidden_dim != stack_dim())
    throw std::invalid_argument("hidden_dim is " + std::to_string(hidden_dim) +
                                "; without a readout it must be the top layer's width, " + std::to_string(stack_dim()) +
                                ".");
  if (shared_embedding && source_vocab_size != target_vocab_size)
    throw std::invalid_argument("shared_embedding needs source_vocab_size = target_vocab_size, but they are " +
                                std::to_string(source_vocab_size) + " and " + std::to_string(target_vocab_size) + ".");
}

}  // namespace quickbeam
