// An LSTM language model on the CPU: ids -> hidden vectors, the native twin of models/lstm_lm/module.py.
//
// A row's answer depends on that row alone, in bytes: not on its neighbours, the order of the calls, or the table.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "kernels/table.h"
#include "models/common/decoding.h"
#include "models/lstm/lstm.h"

namespace sharpbeam {

// The facts of an LSTM language model, as in src/sharpbeam/models/lstm_lm/config.py, which says what each one means.
struct LstmLmConfig {
  int64_t vocab_size = 0;
  int64_t embedding_dim = 0;
  int64_t hidden_dim = 0;
  int64_t layers = 0;
  int64_t bos_id = 0;

  // Width of a state: for each layer its output, then its cell.
  int64_t state_dim() const { return layers * Lstm::kParts * hidden_dim; }

  // Throws std::invalid_argument unless all sizes are positive.
  void check() const;
};

// The weights, packed; immutable, so any number of runs in any number of threads share one.
class LstmLm {
 public:
  // Throws std::invalid_argument where a tensor is missing or does not have the shape that the config asks for.
  LstmLm(const LstmLmConfig& config, const Weights& weights, const Kernels& table);
  LstmLm(const LstmLm&) = delete;

  // Feeds one token to each row. Allocates only where `buffers` is too small.
  void feed(const StepRows& rows, LstmBuffers& buffers) const { stack_.step(table_, rows, embedding_.get(), buffers); }
  // The hidden vector [D] of a state: the output of its uppermost layer.
  const float* hidden(const float* state) const {
    return state + (config_.layers - 1) * Lstm::kParts * config_.hidden_dim;
  }

  const LstmLmConfig& config() const { return config_; }
  const Kernels& table() const { return table_; }

 private:
  LstmLmConfig config_;
  const Kernels& table_;
  Array embedding_;  // [V, E]
  LstmStack stack_;
};

// A decoding run: all that stays of a request is that it was admitted.
class LstmLmDecoding : public Decoding<LstmLm, std::monostate> {
 public:
  explicit LstmLmDecoding(std::shared_ptr<const LstmLm> model) : Decoding(std::move(model)) {}

  // Feeds the whole prompts of `request` [sources.count]; handles [sources.count] name the states behind them.
  void admit(const int32_t* request, const Sources& sources, int32_t* handles);

  // Feeds one token to each row: hidden [rows, D] and the handles of the new states [rows]. The states read stay.
  // bos feeds nothing: the row's new state is its old one.
  void step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows, float* hidden,
            int32_t* handles);

 private:
  // Feeds token_ to the states old_, which gives the states new_.
  void feed();

  LstmBuffers buffers_;
  std::vector<int32_t> token_, old_, new_;  // of the rows that are fed: what, and the states before and behind
};

}  // namespace sharpbeam
