#include "models/lstm_lm.h"

#include <algorithm>
#include <string>

namespace quickbeam {
namespace {

const LstmLmConfig& checked(const LstmLmConfig& config) {
  config.check();
  return config;
}

}  // namespace

void LstmLmConfig::check() const {
  check_size("vocab_size", vocab_size, 1);
  check_size("embedding_dim", embedding_dim, 1);
  check_size("hidden_dim", hidden_dim, 1);
  check_size("layers", layers, 1);
}

LstmLm::LstmLm(const LstmLmConfig& config, const Weights& weights, const Kernels& table)
    : config_(checked(config)), table_(table) {
  const LstmLmConfig& c = config_;
  embedding_ = weights.array("embedding", {c.vocab_size, c.embedding_dim});
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = "_l" + std::to_string(i);
    const int64_t below = i ? c.hidden_dim : c.embedding_dim, gates = 4 * c.hidden_dim;
    layers_.push_back({weights.matrix("lstm.weight_ih" + layer, "lstm.bias_ih" + layer, gates, below),
                       weights.matrix("lstm.weight_hh" + layer, "lstm.bias_hh" + layer, gates, c.hidden_dim)});
  }
}

void LstmLm::feed(const LstmLmRows& rows, LstmLmBuffers& buffers) const {
  const int64_t dim = config_.hidden_dim, state_dim = config_.state_dim(), gates_dim = 4 * dim;
  buffers.inputs.reserve(rows.rows * std::max(config_.embedding_dim, dim));
  buffers.gates.reserve(rows.rows * gates_dim);
  buffers.recurrent.reserve(rows.parents * gates_dim);
  float *inputs = buffers.inputs.get(), *gates = buffers.gates.get(), *recurrent = buffers.recurrent.get();
  int64_t width = config_.embedding_dim;
  for (int64_t row = 0; row < rows.rows; ++row)
    std::copy_n(embedding_.get() + rows.token[row] * width, width, inputs + row * width);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) * 2 * dim;  // of this layer in a state: its output, then its cell
    layers_[i].input.multiply(table_, inputs, width, gates, gates_dim, rows.rows);
    layers_[i].hidden.multiply(table_, rows.states + at, state_dim, recurrent, gates_dim, rows.parents);
    width = dim;
    for (int64_t row = 0; row < rows.rows; ++row) {
      const float* cell = rows.states + rows.parent[row] * state_dim + at + dim;
      float* output = rows.next[row] + at;
      table_.lstm(gates + row * gates_dim, recurrent + rows.parent[row] * gates_dim, cell, output + dim, output, dim);
      std::copy_n(output, dim, inputs + row * dim);
    }
  }
}

LstmLmDecoding::LstmLmDecoding(std::shared_ptr<const LstmLm> model)
    : model_(std::move(model)), pool_(model_->config().state_dim()) {}

void LstmLmDecoding::check_requests(const int32_t* request, int64_t count) const {
  for (int64_t i = 0; i < count; ++i)
    if (!requests_.count(request[i])) refuse_request(request[i]);
}

void LstmLmDecoding::feed() {
  const auto rows = static_cast<int64_t>(token_.size());
  if (rows == 0) return;
  parent_.resize(rows);
  next_.resize(rows);
  const int64_t parents = pool_.gather(old_.data(), rows, parents_, parent_.data());
  for (int64_t row = 0; row < rows; ++row) next_[row] = pool_.at(new_[row]);
  model_->feed({rows, token_.data(), parent_.data(), parents, parents_.get(), next_.data()}, buffers_);
}

void LstmLmDecoding::admit(const int32_t* request, const Sources& sources, int32_t* handles) {
  check_sources(request, sources, model_->config().vocab_size,
                [&](int32_t asked) { return requests_.count(asked) != 0; });
  pool_.take(sources.count, handles);
  int32_t longest = 0;
  for (int64_t i = 0; i < sources.count; ++i) {
    std::fill_n(pool_.at(handles[i]), model_->config().state_dim(), 0.0f);
    longest = std::max(longest, sources.length[i]);
  }
  for (int32_t t = 0; t < longest; ++t) {
    token_.clear();
    new_.clear();
    const int32_t* prompt = sources.token;
    for (int64_t i = 0; i < sources.count; prompt += sources.length[i], ++i) {
      if (t >= sources.length[i]) continue;
      token_.push_back(prompt[t]);
      new_.push_back(handles[i]);
    }
    old_ = new_;
    feed();
  }
  requests_.insert(request, request + sources.count);
}

void LstmLmDecoding::step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows,
                          float* hidden, int32_t* handles) {
  pool_.check(state, rows);
  check_tokens("token", token, rows, model_->config().vocab_size);
  check_requests(request, rows);
  const LstmLmConfig& config = model_->config();
  pool_.take(rows, handles);
  token_.clear();
  old_.clear();
  new_.clear();
  for (int64_t row = 0; row < rows; ++row) {
    if (token[row] == config.bos_id) {
      std::copy_n(pool_.at(state[row]), config.state_dim(), pool_.at(handles[row]));
      continue;
    }
    token_.push_back(token[row]);
    old_.push_back(state[row]);
    new_.push_back(handles[row]);
  }
  feed();
  for (int64_t row = 0; row < rows; ++row)
    std::copy_n(model_->hidden(pool_.at(handles[row])), config.hidden_dim, hidden + row * config.hidden_dim);
}

void LstmLmDecoding::retain(const int32_t* state, int64_t count) {
  pool_.check(state, count);
  pool_.retain(state, count);
}

void LstmLmDecoding::evict(const int32_t* request, int64_t count) {
  check_requests(request, count);
  for (int64_t i = 0; i < count; ++i) requests_.erase(request[i]);
}

}  // namespace quickbeam
