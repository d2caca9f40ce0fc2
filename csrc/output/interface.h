// The interface of output layers in the core: hidden vectors in, the best tokens and their log probabilities out.
// The counterpart of src/sharpbeam/output_layers/interface.py.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string_view>

namespace sharpbeam {

// The candidates that a search can use. Of a request's rows, which are side by side, a beam search uses those whose
// score is at least that of its `width`-th best candidate that does not end. Where a row has fewer than k of them, it
// is filled up with token 0 at -inf.
struct BeamView {
  const double* score;  // [rows] sum of log probabilities so far; a candidate's is its row's plus its own; null: all k
  int64_t width;
  int64_t children;  // most candidates of one row that count
  int32_t eos;
  std::span<const char> excluded;   // [vocab] or empty: tokens that the search does not take
  const double* open = nullptr;     // [rows] how far each score may be off, against others of its request; null: exact
  const char* whole = nullptr;      // [rows] all k of a row count; null: of none
  const int64_t* wanted = nullptr;  // [rows] how many of the k are a row's own: neighbors may ask for more; null: all

  bool ends(int32_t token) const {
    return token == eos || (!excluded.empty() && excluded[static_cast<size_t>(token)] != 0);
  }
};

// The normalizers that a layer took off the logits of its rows: to be filled in by layers whose normalizers are
// estimates, and by others that have the logits.
struct Estimates {
  float* total;  // [rows]
  float* error;  // [rows] how far each may be off; 0: it is exact
};

// Rows (live hypotheses) whose next token is asked for.
struct LayerRows {
  const float* hidden;  // [rows, dim]
  int64_t rows;
  const int32_t* request = nullptr;  // [rows] index of each row's request; a RowLayer does not look at it
  // [rows] a lower bound on the log probability that can still change the search; null: none. Candidates below it may
  // be left out; a row with fewer than k candidates is filled up with token 0 at -inf.
  const float* floor = nullptr;
  const BeamView* beam = nullptr;  // needs `request`; a layer may return more than it says, and may ignore it
  const Estimates* estimates = nullptr;

  bool narrowed() const { return beam != nullptr && beam->score != nullptr; }

  // Notes a row's normalizer where it is asked for.
  void note(int64_t row, float total, float error) const {
    if (estimates != nullptr) estimates->total[row] = total, estimates->error[row] = error;
  }
};

// A request that enters a decoding run.
struct LayerRequest {
  int32_t index;
  std::span<const int32_t> source;                    // token ids, eos included
  std::string_view source_language, target_language;  // codes; empty where the model has only one
};

// An output layer in one decoding run. Calls from several threads wait for each other. A row's answer depends on that
// row and on its request alone. No call of a warm run allocates memory.
class LayerRun {
 public:
  virtual ~LayerRun() = default;
  virtual int64_t dim() const = 0;    // D
  virtual int64_t vocab() const = 0;  // V
  // Whether normalizers are estimates with a stated error, and exact_totals are to be had; and whether such errors are
  // too large for searches that do not ask where they matter.
  virtual bool estimates() const { return false; }
  virtual bool rough() const { return false; }
  // Whether there are closer estimates as well, for much less than exact ones cost.
  virtual bool has_closer() const { return false; }

  // Prepares for rows of a request, and forgets requests. A layer that keeps something of requests throws
  // std::invalid_argument for one that is in flight already, or is not.
  void admit(const LayerRequest& request) {
    const std::lock_guard<std::mutex> lock(mutex_);
    enter(request);
  }
  void evict(const int32_t* request, int64_t count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    leave(request, count);
  }
  // The k best tokens of each row, best first, equal log probabilities by lower id; into `log_prob` and `token`
  // [rows, k]. Throws std::invalid_argument unless 1 <= k <= vocab.
  void topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) {
    const std::lock_guard<std::mutex> lock(mutex_);
    find_topk(rows, k, log_prob, token);
  }
  // The log probability of `token` [rows], one for each row, into `log_prob` [rows]: the bits of topk. Throws
  // std::invalid_argument unless each 0 <= token < vocab.
  void log_prob(const LayerRows& rows, const int32_t* token, float* log_prob) {
    const std::lock_guard<std::mutex> lock(mutex_);
    find_log_prob(rows, token, log_prob);
  }
  // Closer estimates of normalizers into the estimates of `rows`, of a run that has them.
  void closer_totals(const LayerRows& rows) {
    const std::lock_guard<std::mutex> lock(mutex_);
    find_closer_totals(rows);
  }
  // The normalizers [rows] as the exact layer has them, of a run that estimates.
  void exact_totals(const LayerRows& rows, float* total) {
    const std::lock_guard<std::mutex> lock(mutex_);
    find_exact_totals(rows, total);
  }

 private:
  virtual void enter(const LayerRequest& request) = 0;
  virtual void leave(const int32_t* request, int64_t count) = 0;
  virtual void find_topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) = 0;
  virtual void find_log_prob(const LayerRows& rows, const int32_t* token, float* log_prob) = 0;
  virtual void find_closer_totals(const LayerRows&) { throw std::logic_error("there are no closer totals"); }
  virtual void find_exact_totals(const LayerRows&, float*) {}

  std::mutex mutex_;
};

// An output layer: weights that any number of decoding runs share.
class OutputLayer {
 public:
  virtual ~OutputLayer() = default;
  virtual int64_t dim() const = 0;
  virtual int64_t vocab() const = 0;
  // The layer in a new decoding run. This layer has to outlive it.
  virtual std::unique_ptr<LayerRun> open() const = 0;
};

// An output layer that looks at hidden vectors alone. Any number of threads may use one at a time: each has its own
// scratch. topk, log_prob and what is said of normalizers are those of LayerRun.
class RowLayer : public OutputLayer {
 public:
  // Multiply-adds that a row takes, about: a caller decides by it whether other threads may run meanwhile.
  virtual int64_t row_cost() const { return vocab() * dim(); }

  virtual void topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) const = 0;
  virtual void log_prob(const LayerRows& rows, const int32_t* token, float* log_prob) const = 0;
  virtual bool estimates() const { return false; }
  virtual bool rough() const { return false; }
  virtual bool has_closer() const { return false; }
  virtual void closer_totals(const LayerRows&) const { throw std::logic_error("there are no closer totals"); }
  virtual void exact_totals(const LayerRows&, float*) const {}

  // The layer with exact logits instead of log probabilities (CUBE eq. 12); null if it cannot leave its normalizer
  // out. This layer has to outlive it.
  virtual std::unique_ptr<RowLayer> unnormalized() const { return nullptr; }

  // A run in which all requests are alike.
  std::unique_ptr<LayerRun> open() const override;
};

// A RowLayer whose normalizer can be left out.
class NormalizingLayer : public RowLayer {
 public:
  void topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) const final {
    rank(rows, k, true, log_prob, token);
  }
  void log_prob(const LayerRows& rows, const int32_t* token, float* log_prob) const final {
    score(rows, token, true, log_prob);
  }
  std::unique_ptr<RowLayer> unnormalized() const final;

  // topk and log_prob; without `normalize`, exact logits stand for log probabilities, in the order of the logits.
  virtual void rank(const LayerRows& rows, int64_t k, bool normalize, float* log_prob, int32_t* token) const = 0;
  virtual void score(const LayerRows& rows, const int32_t* token, bool normalize, float* log_prob) const = 0;
};

}  // namespace sharpbeam
