// The fused int8 scan: approximate logits of all words in one pass over their bytes, then exact ones of every word that
// could be among the k best. The k best are the exact layer's, proven; the normaliser is approximate.
//
// The proof. Let h be the hidden vector, h' what its bytes stand for (scale times whole numbers), w and w' the same of
// a word, b its bias, u = 2^-24, D the width, |.| the Euclidean norm.
//
//   The real logit l = b + h w and the bytes' l' = b + h' w' are no further apart than
//     |h w - h' w'| = |(h - h') w + h' (w - w')| <= |h - h'| |w| + |h'| |w - w'|.
//   The exact layer's float logit L, a chain of D fused multiply-adds from b, has |L - l| <= g (|b| + |h| |w|),
//     g = D u / (1 - D u).
//   The scan's float logit L' takes the exact whole sum, one conversion, two products and a sum:
//     |L' - l'| <= 5 u (|b| + |h'| |w'|), and |w'| <= |w| + |w - w'|.
//
// So L <= L' + A a + B c with a = |w| + |b| / 256, c = |w - w'|, B = (1 + 6 u) |h'| and A the larger of
// |h - h'| + g |h| + 5 u |h'| and 256 (g + 5 u), which pays for the biases. Let t be the k-th largest exact logit of
// any k or more words: a word with L' + A a + B c < t is not among the k best. A, B, a, c are computed in double
// precision and rounded up with a factor 1 + 2^-20, and t is lowered by 2^-20 of its size, which is more than the
// rounding of the comparison itself takes.
#pragma once

#include <cstdint>

#include "kernels/int8_matrix.h"
#include "projections/words.h"

namespace quickbeam {

// Any number of threads may use one projection at a time: each has its own scratch.
class ScanProjection {
 public:
  // `weight` [vocab, dim] and `bias` [vocab] are copied. `trust` multiplies A and B: 1 is proven, tests take less to
  // see that the bound matters. Throws std::invalid_argument as Words and Int8Matrix do.
  ScanProjection(const float* weight, const float* bias, int64_t vocab, int64_t dim, const Kernels& table, float trust);

  int64_t vocab() const { return words_.vocab(); }
  int64_t dim() const { return words_.dim(); }

  // As ExactProjection::topk, with the same logits; log_prob = logit - total, where total is the log-sum-exp of the
  // int8 logits with the kRefined largest replaced by exact ones. `total` [rows] gets it, `rescored`
  // [rows] the number of words that took exact logits: the kRefined or k largest, and all that could be among the k
  // best; vocab where that is many. Without `normalise` all totals are 0, and log_prob is the exact logit.
  void topk(const float* hidden, int64_t rows, int64_t k, bool normalise, float* log_prob, int32_t* token, float* total,
            int32_t* rescored) const;

  // As ExactProjection::log_prob: the same bits as from topk.
  void log_prob(const float* hidden, const int32_t* token, int64_t rows, bool normalise, float* log_prob) const;

  static constexpr int64_t kRefined = 16;

 private:
  struct Row;  // bytes of a hidden vector and its part of the bound
  template <typename Visit>
  void for_each_row(const float* hidden, int64_t rows, Visit visit) const;
  Row quantized(const float* hidden, int8_t* bytes) const;

  Words words_;
  Int8Matrix bytes_;
  Buffer norm_;  // a of each word
  Buffer lost_;  // c of each word
  float trust_;
};

}  // namespace quickbeam
