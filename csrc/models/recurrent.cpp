#include "models/recurrent.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <unordered_set>

namespace quickbeam {
namespace {

const RecurrentConfig& checked(const RecurrentConfig& config) {
  config.check();
  return config;
}

void check_tokens(const char* name, const int32_t* token, int64_t count, int64_t vocab_size) {
  for (int64_t i = 0; i < count; ++i)
    if (token[i] < 0 || token[i] >= vocab_size)
      throw std::invalid_argument(std::string(name) + " " + std::to_string(i) + " is " + std::to_string(token[i]) +
                                  "; it must be between 0 and " + std::to_string(vocab_size - 1) + ".");
}

}  // namespace

RecurrentModel::RecurrentModel(const RecurrentConfig& config, const Weights& weights, const Kernels& table)
    : config_(checked(config)), table_(table), encoder_(weights, config), decoder_(weights, config) {}

RecurrentDecoding::RecurrentDecoding(std::shared_ptr<const RecurrentModel> model)
    : model_(std::move(model)), pool_(model_->config().state_dim()) {}

void RecurrentDecoding::check_admit(const int32_t* request, const Sources& sources) const {
  std::unordered_set<int32_t> asked;
  int64_t positions = 0;
  for (int64_t i = 0; i < sources.count; ++i) {
    const std::string name = "request " + std::to_string(request[i]);
    if (sources_.count(request[i]) || !asked.insert(request[i]).second)
      throw std::invalid_argument(name + " is admitted already; evict it first.");
    if (sources.length[i] < 1)
      throw std::invalid_argument(name + " has a source of " + std::to_string(sources.length[i]) +
                                  " tokens; it must have 1 or more.");
    positions += sources.length[i];
  }
  if (positions != sources.positions)
    throw std::invalid_argument("the lengths of the sources sum to " + std::to_string(positions) + "; there are " +
                                std::to_string(sources.positions) + " tokens.");
  check_tokens("source token", sources.token, positions, model_->config().source_vocab_size);
}

void RecurrentDecoding::check_states(const int32_t* state, int64_t count) const {
  for (int64_t i = 0; i < count; ++i)
    if (!pool_.holds(state[i]))
      throw std::invalid_argument("state " + std::to_string(i) + " is " + std::to_string(state[i]) +
                                  "; it must be a handle from admit or step that retain has kept.");
}

const Source& RecurrentDecoding::source(int32_t request) const {
  const auto found = sources_.find(request);
  if (found == sources_.end())
    throw std::invalid_argument("request is " + std::to_string(request) + "; it must be one that was admitted and " +
                                "not yet evicted.");
  return found->second;
}

void RecurrentDecoding::admit(const int32_t* request, const Sources& sources, int32_t* handles) {
  check_admit(request, sources);
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

int64_t RecurrentDecoding::gather_parents(const int32_t* state, int64_t rows) {
  const int64_t width = model_->config().state_dim();
  parents_.reserve(rows * width);
  parent_of_.resize(std::max(parent_of_.size(), static_cast<size_t>(pool_.slots())), -1);
  int32_t count = 0;
  for (int64_t row = 0; row < rows; ++row) {
    int32_t& known = parent_of_[state[row]];
    if (known < 0) {
      std::copy_n(pool_.at(state[row]), width, parents_.get() + count * width);
      known = count++;
    }
    parent_[row] = known;
  }
  for (int64_t row = 0; row < rows; ++row) parent_of_[state[row]] = -1;
  return count;
}

void RecurrentDecoding::step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows,
                             float* hidden, int32_t* handles) {
  check_states(state, rows);
  check_tokens("token", token, rows, model_->config().target_vocab_size);
  source_.resize(rows);
  for (int64_t row = 0; row < rows; ++row) source_[row] = &source(request[row]);
  parent_.resize(rows);
  next_.resize(rows);
  const int64_t parents = gather_parents(state, rows);
  pool_.take(rows, handles);  // may move the states, so no pointer into the pool is older than this
  for (int64_t row = 0; row < rows; ++row) next_[row] = pool_.at(handles[row]);
  const StepRows step{rows, token, source_.data(), parent_.data(), parents, parents_.get(), next_.data()};
  model_->decoder().step(model_->table(), step, buffers_, hidden);
}

void RecurrentDecoding::retain(const int32_t* state, int64_t count) {
  check_states(state, count);
  pool_.retain(state, count);
}

void RecurrentDecoding::evict(const int32_t* request, int64_t count) {
  for (int64_t i = 0; i < count; ++i) source(request[i]);  // throws before anything is forgotten
  for (int64_t i = 0; i < count; ++i) sources_.erase(request[i]);
}

}  // namespace quickbeam
