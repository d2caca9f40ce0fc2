#include "models/lstm/lstm_attention.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace sharpbeam {
namespace {

const LstmAttentionConfig& checked(const LstmAttentionConfig& config) {
  config.check();
  return config;
}

// The lowest layer of the decoder. Of its inputs, word and fed-back hidden vector, the second is part of the state, as
// the layer's own output is: one product of both, once for all siblings.
LstmStack::Layer lowest(const Weights& weights, const LstmAttentionConfig& c, const std::string& name) {
  const int64_t dim = c.hidden_dim, gates = Lstm::kGates * dim, width = c.embedding_dim + dim;
  const ComputeType type = weights.compute_type();
  const float* input = weights.array(name + ".input_weight", {gates, width}).get();
  const float* hidden = weights.array(name + ".hidden_weight", {gates, dim}).get();
  std::vector<float> joined(gates * 2 * dim);
  for (int64_t row = 0; row < gates; ++row) {
    std::copy_n(input + row * width + c.embedding_dim, dim, joined.data() + row * 2 * dim);
    std::copy_n(hidden + row * dim, dim, joined.data() + row * 2 * dim + dim);
  }
  return {
      Linear(type, input, gates, c.embedding_dim, width, weights.array(name + ".input_bias", {gates}).get()),
      Linear(type, joined.data(), gates, 2 * dim, 2 * dim, weights.array(name + ".hidden_bias", {gates}).get()),
  };
}

}  // namespace

void LstmAttentionConfig::check() const {
  check_size("source_vocab_size", source_vocab_size, 1);
  check_size("target_vocab_size", target_vocab_size, 1);
  check_size("embedding_dim", embedding_dim, 1);
  check_size("layers", layers, 1);
  check_size("hidden_dim", hidden_dim, 2);
  if (hidden_dim % 2 != 0)
    throw std::invalid_argument("hidden_dim is " + std::to_string(hidden_dim) +
                                "; it must be even, since each direction of the encoder has half of it.");
}

LstmAttention::LstmAttention(const LstmAttentionConfig& config, const Weights& weights, const Kernels& table)
    : config_(checked(config)),
      table_(table),
      encoder_(weights, config.shared_embedding ? "target_embedding" : "source_embedding", config.source_vocab_size,
               config.embedding_dim, config.layers, config.hidden_dim / 2, config.residual),
      embedding_(weights.array("target_embedding", {config.target_vocab_size, config.embedding_dim})),
      attention_(weights, "decoder.key_weight", config.hidden_dim, config.hidden_dim),
      readout_(weights.linear("decoder.readout_weight", config.hidden_dim, 2 * config.hidden_dim)) {
  const int64_t dim = config.hidden_dim;
  std::vector<LstmStack::Layer> layers;
  layers.push_back(lowest(weights, config, "decoder.layers.0"));
  for (int64_t i = 1; i < config.layers; ++i) {
    Lstm lstm(weights, "decoder.layers." + std::to_string(i), dim, dim);
    layers.push_back({std::move(lstm.input), std::move(lstm.hidden)});
  }
  stack_ = LstmStack(std::move(layers), dim, dim, config.residual);
}

std::vector<Source> LstmAttention::encode(const Sources& sources, float* states) const {
  const int64_t fed = config_.hidden_dim, state_dim = config_.state_dim(), rest = state_dim - fed;
  std::vector<float> last(sources.count * rest);
  std::vector<Source> result = attention_.split(table_, encoder_.encode(table_, sources, last.data()), sources);
  for (int64_t i = 0; i < sources.count; ++i) {
    std::fill_n(states + i * state_dim, fed, 0.0f);
    std::copy_n(last.data() + i * rest, rest, states + i * state_dim + fed);
  }
  return result;
}

void LstmAttention::step(const StepRows& rows, Buffers& buffers, float* hidden) const {
  const int64_t dim = config_.hidden_dim, count = rows.rows;
  buffers.contexts.reserve(count * dim);
  buffers.joined.reserve(count * 2 * dim);
  float *contexts = buffers.contexts.get(), *joined = buffers.joined.get();

  float* outputs = stack_.step(table_, rows, embedding_.get(), buffers.stack);
  attention_.attend(table_, outputs, rows, buffers.scores, contexts, dim);
  for (int64_t row = 0; row < count; ++row) {
    std::copy_n(contexts + row * dim, dim, joined + row * 2 * dim);
    std::copy_n(outputs + row * dim, dim, joined + row * 2 * dim + dim);
  }
  readout_.apply(table_, joined, 2 * dim, hidden, dim, count, buffers.stack.rounded);
  table_.tanh(hidden, count * dim);
  for (int64_t row = 0; row < count; ++row) std::copy_n(hidden + row * dim, dim, rows.next[row]);
}

}  // namespace sharpbeam
