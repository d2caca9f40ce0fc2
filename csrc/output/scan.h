// The fused int8 scan: approximate logits of all words in one pass over their bytes, then exact ones of every word that
// could be among the k best. The k best are the exact layer's, proven; the normaliser is approximate.
// csrc/output/rounding.h has the proof.
#pragma once

#include <cstdint>

#include "linear/int8_matrix.h"
#include "output/rounding.h"
#include "output/words.h"

namespace sharpbeam {

// Any number of threads may use one output layer at a time: each has its own scratch.
class ScanLayer {
 public:
  // `weight` [vocab, dim] is shared, and must not change; `bias` [vocab] is copied. `trust` multiplies A and B: 1 is
  // proven, tests take less to see that the bound matters. Throws std::invalid_argument as Words and Int8Matrix do.
  ScanLayer(Array weight, const float* bias, int64_t vocab, int64_t dim, const Kernels& table, float trust);

  int64_t vocab() const { return words_.vocab(); }
  int64_t dim() const { return words_.dim(); }

  // As ExactLayer::topk, with the same logits; log_prob = logit - total, where total is the log-sum-exp of the
  // int8 logits with the kRefined largest replaced by exact ones. `total` [rows] gets it, `rescored`
  // [rows] the number of words that took exact logits: the kRefined or k largest, and all that could be among the k
  // best; vocab where that is many. Without `normalise` all totals are 0, and log_prob is the exact logit.
  void topk(const float* hidden, int64_t rows, int64_t k, bool normalise, float* log_prob, int32_t* token, float* total,
            int32_t* rescored) const;

  // As ExactLayer::log_prob: the same bits as from topk.
  void log_prob(const float* hidden, const int32_t* token, int64_t rows, bool normalise, float* log_prob) const;

  static constexpr int64_t kRefined = 16;

 private:
  template <typename Visit>
  void for_each_row(const float* hidden, int64_t rows, Visit visit) const;

  Words words_;
  Int8Matrix bytes_;
  Buffer norm_;  // a of each word
  Buffer lost_;  // c of each word
  float trust_;
};

}  // namespace sharpbeam
