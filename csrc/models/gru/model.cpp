#include "models/gru/model.h"

namespace sharpbeam {
namespace {

const GruConfig& checked(const GruConfig& config) {
  config.check();
  return config;
}

}  // namespace

GruModel::GruModel(const GruConfig& config, const Weights& weights, const Kernels& table)
    : config_(checked(config)),
      table_(table),
      encoder_(weights, config.shared_embedding ? "target_embedding" : "source_embedding", config.source_vocab_size,
               config.embedding_dim, config.encoder_layers, config.encoder_dim),
      decoder_(table, weights, config) {}

std::vector<Source> GruModel::encode(const Sources& sources, float* states) const {
  std::vector<Source> result = decoder_.attention().split(table_, encoder_.encode(table_, sources), sources);
  for (const Source& source : result) {
    decoder_.begin(table_, source, states);
    states += config_.state_dim();
  }
  decoder_.prepare(table_, result);
  return result;
}

void GruModel::step(const StepRows& rows, Buffers& buffers, float* hidden) const {
  decoder_.step(table_, rows, buffers, hidden);
}

}  // namespace sharpbeam
