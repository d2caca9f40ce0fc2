// An LSTM language model on the CPU: ids -> hidden vectors, the native twin of models/lstm_lm/module.py.
//
// A row's answer depends on that row alone, in bytes: not on its neighbours, the order of the calls, or the table.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/table.h"
#include "models/sources.h"
#include "models/state_pool.h"
#include "models/weights.h"

namespace quickbeam {

// The facts of an LSTM language model, as in src/quickbeam/models/lstm_lm/config.py, which says what each one means.
struct LstmLmConfig {
  int64_t vocab_size = 0;
  int64_t embedding_dim = 0;
  int64_t hidden_dim = 0;
  int64_t layers = 0;
  int64_t bos_id = 0;

  // Width of a state: for each layer its output, then its cell.
  int64_t state_dim() const { return layers * 2 * hidden_dim; }

  // Throws std::invalid_argument unless all sizes are positive.
  void check() const;
};

// Scratch of one decoding run; it only grows, so a warm step allocates nothing.
struct LstmLmBuffers {
  Buffer inputs, gates, recurrent;
};

// R rows that go on from U distinct states: the products of the old state are computed once for siblings.
struct LstmLmRows {
  int64_t rows;           // R
  const int32_t* token;   // [R]
  const int32_t* parent;  // [R] index into `states`
  int64_t parents;        // U
  const float* states;    // [U, state_dim]
  float* const* next;     // [R] where each row's new state goes
};

// The weights, packed; immutable, so any number of runs in any number of threads share one.
class LstmLm {
 public:
  // Throws std::invalid_argument where a tensor is missing or does not have the shape that the config asks for.
  LstmLm(const LstmLmConfig& config, const Weights& weights, const Kernels& table);
  LstmLm(const LstmLm&) = delete;

  // Feeds one token to each row. Allocates only where `buffers` is too small.
  void feed(const LstmLmRows& rows, LstmLmBuffers& buffers) const;
  // The hidden vector [D] of a state: the output of its uppermost layer.
  const float* hidden(const float* state) const { return state + (config_.layers - 1) * 2 * config_.hidden_dim; }

  const LstmLmConfig& config() const { return config_; }
  const Kernels& table() const { return table_; }

 private:
  struct Layer {
    Matrix input;   // [4 D, width below]
    Matrix hidden;  // [4 D, D]
  };

  LstmLmConfig config_;
  const Kernels& table_;
  Array embedding_;  // [V, E]
  std::vector<Layer> layers_;
};

// The states of one decoding run, by handle. One thread at a time.
// Every call checks its arguments before it changes anything, and throws std::invalid_argument.
class LstmLmDecoding {
 public:
  explicit LstmLmDecoding(std::shared_ptr<const LstmLm> model);

  // Feeds the whole prompts of `request` [sources.count]; handles [sources.count] name the states behind them.
  void admit(const int32_t* request, const Sources& sources, int32_t* handles);

  // Feeds one token to each row: hidden [rows, D] and the handles of the new states [rows]. The states read stay.
  // bos feeds nothing: the row's new state is its old one.
  void step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows, float* hidden,
            int32_t* handles);

  // Frees every state but the named ones (repeats allowed).
  void retain(const int32_t* state, int64_t count);

  // Forgets the named requests.
  void evict(const int32_t* request, int64_t count);

  const LstmLm& model() const { return *model_; }

 private:
  void check_requests(const int32_t* request, int64_t count) const;
  // Feeds token_ to the states old_, which gives the states new_ (a slot may stand in both).
  void feed();

  std::shared_ptr<const LstmLm> model_;
  std::unordered_set<int32_t> requests_;
  StatePool pool_;
  LstmLmBuffers buffers_;
  std::vector<int32_t> token_, old_, new_;  // of the rows that are fed: what, and the states before and behind
  Buffer parents_;                          // [U, state_dim]
  std::vector<int32_t> parent_;             // [R]
  std::vector<float*> next_;                // [R]
};

}  // namespace quickbeam
