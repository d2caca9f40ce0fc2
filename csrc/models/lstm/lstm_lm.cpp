#include "models/lstm/lstm_lm.h"

#include <algorithm>
#include <string>

namespace sharpbeam {

LstmLm::LstmLm(const LstmLmConfig& config, const Weights& weights, const Kernels& table)
    : config_(config), table_(table) {
  const LstmLmConfig& c = config_;
  embedding_ = weights.array("embedding", {c.vocab_size, c.embedding_dim});
  std::vector<LstmStack::Layer> layers;
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = "_l" + std::to_string(i);
    const int64_t below = i ? c.hidden_dim : c.embedding_dim, gates = LstmCell::kGates * c.hidden_dim;
    layers.push_back({weights.linear("lstm.weight_ih" + layer, "lstm.bias_ih" + layer, gates, below),
                      weights.linear("lstm.weight_hh" + layer, "lstm.bias_hh" + layer, gates, c.hidden_dim)});
  }
  stack_ = LstmStack(std::move(layers), c.hidden_dim, 0);
}

void LstmLmDecoding::feed() {
  const auto rows = static_cast<int64_t>(token_.size());
  if (rows != 0) model_->feed(gather(token_.data(), from_.data(), to_.data(), rows), buffers_);
}

void LstmLmDecoding::admit(const int32_t* request, const Sources& sources, int32_t* handles) {
  check_admit(request, sources, model_->config().vocab_size);
  pool_.take(sources.count, handles);
  int32_t longest = 0;
  for (int64_t i = 0; i < sources.count; ++i) {
    std::fill_n(pool_.at(handles[i]), model_->config().state_dim(), 0.0f);
    longest = std::max(longest, sources.length[i]);
  }
  for (int32_t t = 0; t < longest; ++t) {
    token_.clear();
    to_.clear();
    const int32_t* prompt = sources.token;
    for (int64_t i = 0; i < sources.count; prompt += sources.length[i], ++i) {
      if (t >= sources.length[i]) continue;
      token_.push_back(prompt[t]);
      to_.push_back(handles[i]);
    }
    from_ = to_;
    feed();
  }
  for (int64_t i = 0; i < sources.count; ++i) requests_.insert({request[i], {}});
}

void LstmLmDecoding::step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows,
                          float* hidden, int32_t* handles) {
  pool_.check(state, rows);
  check_tokens("token", token, rows, model_->config().vocab_size);
  for (int64_t row = 0; row < rows; ++row) encoded(request[row]);
  const LstmLmConfig& config = model_->config();
  pool_.take(rows, handles);
  token_.clear();
  from_.clear();
  to_.clear();
  for (int64_t row = 0; row < rows; ++row) {
    if (token[row] == config.bos_id) {
      std::copy_n(pool_.at(state[row]), config.state_dim(), pool_.at(handles[row]));
      continue;
    }
    token_.push_back(token[row]);
    from_.push_back(state[row]);
    to_.push_back(handles[row]);
  }
  feed();
  for (int64_t row = 0; row < rows; ++row)
    std::copy_n(model_->hidden(pool_.at(handles[row])), config.hidden_dim, hidden + row * config.hidden_dim);
}

}  // namespace sharpbeam
