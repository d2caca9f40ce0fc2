// The exact output layer: product, bias, log-sum-exp and top k in one call.
#pragma once

#include <cstdint>

#include "kernels/table.h"
#include "linear/float32_matrix.h"

namespace sharpbeam {

// Any number of threads may use one output layer at a time: each has its own scratch.
class ExactLayer {
 public:
  // `weight` [vocab, dim] and `bias` [vocab] are packed, not kept. Throws std::invalid_argument if a size is < 1.
  ExactLayer(const float* weight, const float* bias, int64_t vocab, int64_t dim, const Kernels& table);

  int64_t vocab() const { return matrix_.out(); }
  int64_t dim() const { return matrix_.in(); }

  // The k best tokens of each row of `hidden` [rows, dim], best first, equal log probabilities by lower id; into
  // `log_prob` and `token` [rows, k]. Without `normalise` the logits stand for the log probabilities (CUBE eq. 12).
  // Throws std::invalid_argument unless 1 <= k <= vocab.
  void topk(const float* hidden, int64_t rows, int64_t k, bool normalise, float* log_prob, int32_t* token) const;

  // The log probability of `token` [rows], one for each row, into `log_prob` [rows]: the same bits as from topk.
  // Throws std::invalid_argument unless each 0 <= token < vocab.
  void log_prob(const float* hidden, const int32_t* token, int64_t rows, bool normalise, float* log_prob) const;

 private:
  // Calls visit(row, logits) for each row, in blocks of rows that fit the cache; the rows of a block in any thread.
  template <typename Visit>
  void for_each_row(const float* hidden, int64_t rows, Visit visit) const;

  Float32Matrix matrix_;
  const Kernels* table_;
};

}  // namespace sharpbeam
