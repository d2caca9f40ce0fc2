// An LSTM language model on the CPU, from token ids to hidden vectors: the native twin of models/lstm_lm/module.py.
//
// The bits of a row depend on that row alone: not on the other rows, the order of the calls, or the table.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "kernels/table.h"
#include "models/common/config.h"
#include "models/common/decoding.h"
#include "models/lstm/lstm.h"

namespace sharpbeam {

// The fields of src/sharpbeam/models/lstm_lm/config.py, which explains each.
#define SHARPBEAM_LSTM_LM_FIELDS(SIZE, NUMBER, FLAG, CHOICE) \
  SIZE(vocab_size, 1)                                        \
  SIZE(embedding_dim, 1)                                     \
  SIZE(hidden_dim, 1)                                        \
  SIZE(layers, 1)                                            \
  SIZE(bos_id, 0)

struct LstmLmConfig {
  SHARPBEAM_CONFIG(SHARPBEAM_LSTM_LM_FIELDS)

  // Width of a state: for each layer its output, then its cell.
  int64_t state_dim() const { return layers * LstmCell::kStateVectors * hidden_dim; }
};

// The packed weights. Immutable, so any number of runs in any number of threads can share them.
class LstmLm {
 public:
  // Throws std::invalid_argument where a tensor is missing or does not have the shape that the config implies.
  LstmLm(const LstmLmConfig& config, const Weights& weights, const Kernels& table);
  LstmLm(const LstmLm&) = delete;

  // Feeds one token to each row. Allocates only where `buffers` is too small.
  void feed(const StepRows& rows, LstmBuffers& buffers) const { stack_.step(table_, rows, embedding_.get(), buffers); }
  // The hidden vector [D] of a state: the output of its uppermost layer.
  const float* hidden(const float* state) const {
    return state + (config_.layers - 1) * LstmCell::kStateVectors * config_.hidden_dim;
  }

  const LstmLmConfig& config() const { return config_; }
  const Kernels& table() const { return table_; }

 private:
  LstmLmConfig config_;
  const Kernels& table_;
  Array embedding_;  // [V, E]
  LstmStack stack_;
};

// A decoding run. A request has no encoding: its prompt is in its state.
class LstmLmDecoding : public RecurrentDecoding<LstmLm, std::monostate> {
 public:
  explicit LstmLmDecoding(std::shared_ptr<const LstmLm> model) : RecurrentDecoding(std::move(model)) {}

  // Feeds the prompts of `request` [sources.count]; writes the handles of the states after them [sources.count].
  void admit(const int32_t* request, const Sources& sources, int32_t* handles);

  // Feeds one token to each row: writes hidden [rows, D] and the handles of the new states [rows]. The states that are
  // read stay. bos_id feeds nothing: the row's new state is a copy of its old one.
  void step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows, float* hidden,
            int32_t* handles);

 private:
  // Feeds token_ to the states from_, and writes the states to_.
  void feed();

  LstmBuffers buffers_;
  std::vector<int32_t> token_, from_, to_;  // of the rows that are fed
};

}  // namespace sharpbeam
