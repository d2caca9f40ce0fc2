// From approximate logits of all words, with a proven bound, to the k best by exact logits.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "output/words.h"

namespace sharpbeam {

// For every word: exact logit <= approximate logit + by_a * a[word] + by_b * b[word].
struct Bound {
  const float *a, *b;  // [vocab]
  float by_a, by_b;
};

// The room that one row needs. Each thread has its own.
struct CandidateScratch {
  Buffer exact;
  std::vector<int32_t> found;
  std::vector<float> kept;
  std::vector<std::pair<int32_t, float>> seeds;
  void reserve(int64_t vocab);
};

// One row: its words with large approximate logits, and what is made of them.
class Candidates {
 public:
  // `approx` [vocab] are the approximate logits; they are overwritten later. `refined` of the largest, or k if that is
  // more, get exact logits at once.
  Candidates(const Words& words, const float* hidden, float* approx, int64_t k, int64_t refined,
             CandidateScratch& scratch);

  // Log-sum-exp of the approximate logits, with exact ones for the `refined` largest. Does not depend on k.
  float total();
  // The k best with log_prob = exact logit - total; gives back how many words took exact logits, vocab
  // where so many could be among the best that all did. To be called last.
  int64_t best(const Bound& bound, float total, float* log_prob, int32_t* token);

 private:
  const Words& words_;
  const float* hidden_;
  float* approx_;
  int64_t k_, refined_, seeds_;
  CandidateScratch& scratch_;
};

// What the exact layer answers for one row; `logits` [vocab] is room for it. `total` gets the log-sum-exp.
void exact_topk(const Words& words, const float* hidden, float* logits, int64_t k, float* log_prob, int32_t* token,
                float* total);
float exact_total(const Words& words, const float* hidden, float* logits);

}  // namespace sharpbeam
