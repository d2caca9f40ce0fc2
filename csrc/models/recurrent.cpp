#include "models/recurrent.h"

#include <algorithm>

namespace quickbeam {
namespace {

const RecurrentConfig& checked(const RecurrentConfig& config) {
  config.check();
  return config;
}

}  // namespace

RecurrentModel::RecurrentModel(const RecurrentConfig& config, const Weights& weights, const Kernels& table)
    : config_(checked(config)), table_(table), encoder_(weights, config), decoder_(weights, config) {}

RecurrentDecoding::RecurrentDecoding(std::shared_ptr<const RecurrentModel> model)
    : model_(std::move(model)), pool_(model_->config().state_dim()) {}

const Source& RecurrentDecoding::source(int32_t request) const {
  const auto found = sources_.find(request);
  if (found == sources_.end()) refuse_request(request);
  return found->second;
}

void RecurrentDecoding::admit(const int32_t* request, const Sources& sources, int32_t* handles) {
  check_sources(request, sources, model_->config().source_vocab_size,
                [&](int32_t asked) { return sources_.count(asked) != 0; });
  const Kernels& table = model_->table();
  const Attention& attention = model_->decoder().attention();
  const std::vector<float> memory = model_->encoder().encode(table, sources);
  std::vector<float> keys(sources.positions * attention.dim());
  attention.keys(table, memory.data(), keys.data(), sources.positions);
  std::vector<Source> fresh(sources.count);
  auto value = memory.begin();
  auto key = keys.begin();
  for (int64_t i = 0; i < sources.count; ++i) {
    fresh[i].positions = sources.length[i];
    const auto value_end = value + fresh[i].positions * attention.memory_dim();
    const auto key_end = key + fresh[i].positions * attention.dim();
    fresh[i].values.assign(value, value_end);
    fresh[i].keys.assign(key, key_end);
    value = value_end;
    key = key_end;
  }
  pool_.take(sources.count, handles);
  for (int64_t i = 0; i < sources.count; ++i) {
    model_->decoder().begin(table, fresh[i], pool_.at(handles[i]));
    sources_.insert_or_assign(request[i], std::move(fresh[i]));
  }
}

void RecurrentDecoding::step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows,
                             float* hidden, int32_t* handles) {
  pool_.check(state, rows);
  check_tokens("token", token, rows, model_->config().target_vocab_size);
  source_.resize(rows);
  for (int64_t row = 0; row < rows; ++row) source_[row] = &source(request[row]);
  parent_.resize(rows);
  next_.resize(rows);
  const int64_t parents = pool_.gather(state, rows, parents_, parent_.data());
  pool_.take(rows, handles);  // may move the states, so no pointer into the pool is older than this
  for (int64_t row = 0; row < rows; ++row) next_[row] = pool_.at(handles[row]);
  const StepRows step{rows, token, source_.data(), parent_.data(), parents, parents_.get(), next_.data()};
  model_->decoder().step(model_->table(), step, buffers_, hidden);
}

void RecurrentDecoding::retain(const int32_t* state, int64_t count) {
  pool_.check(state, count);
  pool_.retain(state, count);
}

void RecurrentDecoding::evict(const int32_t* request, int64_t count) {
  for (int64_t i = 0; i < count; ++i) source(request[i]);  // throws before anything is forgotten
  for (int64_t i = 0; i < count; ++i) sources_.erase(request[i]);
}

}  // namespace quickbeam
