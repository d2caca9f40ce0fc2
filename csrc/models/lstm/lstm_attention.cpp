#include "models/lstm/lstm_attention.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace sharpbeam {
namespace {

// Each direction of the encoder has half of hidden_dim, which the shapes of the tensors do not imply.
const LstmAttentionConfig& checked(const LstmAttentionConfig& config) {
  if (config.hidden_dim % 2 != 0)
    throw std::invalid_argument("hidden_dim is " + std::to_string(config.hidden_dim) +
                                "; it must be even, since each direction of the encoder has half of it.");
  return config;
}

// The lowest layer of the decoder. Its input weights read the token and the input feed. The input feed is part of the
// state, as is the layer's own output, so both are read by one matrix, once for all rows with the same state.
LstmStack::Layer lowest(const Weights& weights, const LstmAttentionConfig& c, const std::string& name) {
  const int64_t dim = c.hidden_dim, gates = LstmCell::kGates * dim, width = c.embedding_dim + dim;
  const ComputeType type = weights.compute_type();
  const Array input = weights.array(name + ".input_weight", {gates, width});
  const Array hidden = weights.array(name + ".hidden_weight", {gates, dim});
  std::vector<float> state(gates * 2 * dim);
  for (int64_t row = 0; row < gates; ++row) {
    std::copy_n(input.get() + row * width + c.embedding_dim, dim, state.data() + row * 2 * dim);
    std::copy_n(hidden.get() + row * dim, dim, state.data() + row * 2 * dim + dim);
  }
  return {
      Linear(type, input.get(), gates, c.embedding_dim, width, weights.array(name + ".input_bias", {gates}).get()),
      Linear(type, state.data(), gates, 2 * dim, 2 * dim, weights.array(name + ".hidden_bias", {gates}).get()),
  };
}

}  // namespace

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
    LstmCell cell(weights, "decoder.layers." + std::to_string(i), dim, dim);
    layers.push_back({std::move(cell.input), std::move(cell.hidden)});
  }
  stack_ = LstmStack(std::move(layers), dim, dim, config.residual);
}

std::vector<EncodedSource> LstmAttention::encode(const Sources& sources, float* states) const {
  const int64_t feed_dim = config_.hidden_dim, state_dim = config_.state_dim(), rest = state_dim - feed_dim;
  std::vector<float> last(sources.count * rest);
  std::vector<EncodedSource> result = attention_.encode(table_, encoder_.encode(table_, sources, last.data()), sources);
  for (int64_t i = 0; i < sources.count; ++i) {
    std::fill_n(states + i * state_dim, feed_dim, 0.0f);
    std::copy_n(last.data() + i * rest, rest, states + i * state_dim + feed_dim);
    Attention::pack(result[i]);
  }
  return result;
}

void LstmAttention::step(const StepRows& rows, Buffers& buffers, float* hidden) const {
  const int64_t dim = config_.hidden_dim, count = rows.rows;
  buffers.contexts.reserve(count * dim);
  buffers.concatenated.reserve(count * 2 * dim);
  float *contexts = buffers.contexts.get(), *concatenated = buffers.concatenated.get();

  float* outputs = stack_.step(table_, rows, embedding_.get(), buffers.stack);
  attention_.attend(table_, outputs, rows, buffers.scores, contexts, dim);
  for (int64_t row = 0; row < count; ++row) {
    std::copy_n(contexts + row * dim, dim, concatenated + row * 2 * dim);
    std::copy_n(outputs + row * dim, dim, concatenated + row * 2 * dim + dim);
  }
  readout_.apply(table_, concatenated, 2 * dim, hidden, dim, count, buffers.stack.input);
  table_.tanh(hidden, count * dim);
  for (int64_t row = 0; row < count; ++row) std::copy_n(hidden + row * dim, dim, rows.next[row]);
}

}  // namespace sharpbeam
