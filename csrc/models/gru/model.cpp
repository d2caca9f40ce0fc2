#include "models/gru/model.h"

#include <stdexcept>
#include <string>

namespace sharpbeam {
namespace {

// Throws where the shapes of the tensors do not imply that sizes fit each other.
const GruConfig& checked(const GruConfig& c) {
  if (c.top_start == TopStart::bottom && (c.top != Top::gru || c.top_dim != c.decoder_dim))
    throw std::invalid_argument("top_start is bottom; it needs top = gru, and a top_dim of decoder_dim, " +
                                std::to_string(c.decoder_dim) + ".");
  if (c.readout == Readout::none && c.hidden_dim != c.stack_dim())
    throw std::invalid_argument("hidden_dim is " + std::to_string(c.hidden_dim) +
                                "; without a readout it must be the width of the top layer, " +
                                std::to_string(c.stack_dim()) + ".");
  return c;
}

}  // namespace

GruModel::GruModel(const GruConfig& config, const Weights& weights, const Kernels& table)
    : config_(checked(config)),
      table_(table),
      encoder_(weights, config.shared_embedding ? "target_embedding" : "source_embedding", config.source_vocab_size,
               config.embedding_dim, config.encoder_layers, config.encoder_dim),
      decoder_(table, weights, config) {}

std::vector<EncodedSource> GruModel::encode(const Sources& sources, float* states) const {
  std::vector<EncodedSource> result = decoder_.attention().encode(table_, encoder_.encode(table_, sources), sources);
  for (const EncodedSource& source : result) {
    decoder_.begin(table_, source, states);
    states += config_.state_dim();
  }
  decoder_.precompute(table_, result);
  for (EncodedSource& source : result) Attention::pack(source);
  return result;
}

void GruModel::step(const StepRows& rows, Buffers& buffers, float* hidden) const {
  decoder_.step(table_, rows, buffers, hidden);
}

}  // namespace sharpbeam
