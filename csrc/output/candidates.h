// From approximate logits of all tokens, with a proven bound, to the k best by exact logits: how a scan
// (output/scan.cpp has the approximate logits) uses the bound of output/int8_bounds.h. For one row:
//
// 1. The largest approximate logits, k or more, are the seeds; they get exact logits.
// 2. The k-th largest exact logit of the seeds, t, is a lower bound of the k-th best of all. A token whose approximate
//    logit plus its bound is below t is not among the k best. Panels of 64 tokens are ruled out first, by their largest
//    logit and bound, then tokens in the panels left.
// 3. All tokens left get exact logits, and the k best of these and the seeds are the answer. Where more than a quarter
//    of the vocabulary is left, all tokens take exact logits.
//
// The normalizer is no part of the proof: it is the log-sum-exp of the approximate logits with exact ones for the
// largest, and states how far it may be off.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "output/output_matrix.h"

namespace sharpbeam {

// For every token: exact logit <= approximate logit + by_a * a[token] + by_b * b[token]. No factor is negative.
struct Bound {
  const float *a, *b;            // [panels * kPanel], zero from vocab on
  const float *most_a, *most_b;  // [panels] the largest ones of each panel
  float by_a, by_b;
  double mean_square;                // of all but the longest
  std::span<const int32_t> longest;  // few tokens whose a is many times the usual one
  double square(double x, double y) const { return by_a * x * (by_a * x) + by_b * y * (by_b * y); }
};

// Memory that one row needs; each thread has its own.
struct CandidateScratch {
  Buffer exact, maxima;  // maxima: of panels of approximate logits
  Buffer all;            // exact logits of a row whose approximate ones are too far off
  std::vector<int32_t> found, panels, order;
  std::vector<float> kept;
  std::vector<std::pair<int32_t, float>> seeds;
  void reserve(int64_t vocab);
};

// The candidates of one row.
class Candidates {
 public:
  // `approx` [panels * kPanel] are the approximate logits, which `best` overwrites, -inf from vocab on. The seeds, the
  // `refined` or k largest of them if that is more, get exact logits at once.
  Candidates(const OutputMatrix& matrix, const float* hidden, float* approx, const Bound& bound, int64_t k,
             int64_t refined, CandidateScratch& scratch);

  // Log-sum-exp of the approximate logits, with exact ones for the `refined` largest; of exact ones alone if the others
  // could change it too much, or are unlike those largest. Does not depend on k. `mean_error`: the estimated mean error
  // of all approximate logits; `error`: how far the result may be off.
  float log_total(double mean_error, float& error);
  // The k best with log_prob = exact logit - total; returns how many tokens took exact logits, vocab if all did because
  // too many could be among the best. To be called last.
  int64_t best(float total, float* log_prob, int32_t* token);

 private:
  void find_seeds();
  // Whether a token with a long row that is not refined may be so likely that it counts.
  bool hides_long_rows(float total) const;
  // How far the others may move the total, about, in nats, by how far off the refined ones were.
  double uncertainty(float top, float total, double square_error) const;

  const OutputMatrix& matrix_;
  const float* hidden_;
  float* approx_;
  const Bound& bound_;
  int64_t k_, refined_, seeds_, panels_;
  float rest_ = kNever;  // all but the refined ones are at most this
  CandidateScratch& scratch_;
};

}  // namespace sharpbeam
