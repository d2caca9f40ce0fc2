// The screened output layer: a cluster for each row, and the exact logits of the best tokens of that cluster's set
// (L2S section 3, CVP section 2.3).
#pragma once

#include <atomic>
#include <cstdint>

#include "kernels/table.h"
#include "output/interface.h"
#include "output/output_matrix.h"
#include "output/screen_fallback.h"
#include "output/screen_sets.h"
#include "output/screen_view.h"

namespace sharpbeam {

// With int8, clusters are chosen by int8 scores, and so are the tokens that may be among the best: these take exact
// logits. Quantization errors are taken as random: their standard deviation follows from the sizes, and a token is left
// out where its score would have to be wrong by kSure of them. So the k best of a set are the exact ones except in very
// rare cases, which the measured fidelity of a screen includes. The normalizer takes exact logits of the kRefined best
// tokens and int8 ones of the others; where some may be off by more than kMostDeviation, all of the set are exact.
class ScreenLayer final : public RowLayer {
 public:
  // Shares `weight` [vocab, dim], which must not change; the other arrays are copied. `fallback` answers the rows that
  // the screen's test finds uncertain, and has to outlive the layer; null: the screen answers all rows. Throws
  // std::invalid_argument as OutputMatrix and check_screen do, and for a fallback of other sizes or that is a screen
  // itself.
  ScreenLayer(Array weight, const float* bias, int64_t vocab, int64_t dim, const ScreenView& screen, bool int8,
              const RowLayer* fallback, const Kernels& table);

  int64_t vocab() const override { return matrix_.vocab(); }
  int64_t dim() const override { return matrix_.dim(); }
  int64_t row_cost() const override { return (sets_.clusters() + sets_.tokens() / sets_.clusters()) * dim(); }

  // Where a set has fewer than k tokens, the others are token 0 with -inf.
  void topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) const override;
  // A token outside the row's set has -inf without a residual mass. With one, the tokens outside share it as the exact
  // layer's probabilities do, so that probabilities sum to 1 however wrong the residual mass is; such a token costs as
  // much as the exact layer.
  void log_prob(const LayerRows& rows, const int32_t* token, float* log_prob) const override;

  // The cluster of each row of `hidden` [rows, dim], into `cluster` [rows].
  void assign(const float* hidden, int64_t rows, int32_t* cluster) const {
    sets_.assign(matrix_.table(), hidden, rows, cluster);
  }

  // The features of the fallback test, into `features` [rows, kFeatures]: the best logit, the k-th best (-inf where
  // there is none), the log of the residual mass, the distance to the center, and the log normalizer. Throws
  // std::invalid_argument without a test.
  void features(const float* hidden, int64_t rows, float* features) const;
  static constexpr int64_t kFeatures = 5;

  // Rows so far, and those of them that fell back.
  int64_t rows_seen() const { return seen_.load(std::memory_order_relaxed); }
  int64_t rows_fallen_back() const { return fallen_back_.load(std::memory_order_relaxed); }

  static constexpr int64_t kRefined = 8;  // best tokens whose exact logits go into the normalizer
  static constexpr float kSure = 5.0f;
  static constexpr float kMostDeviation = 0.25f;  // nats, a standard deviation; models seen have up to .19

 private:
  // Calls visit(row) for each row; true means that it is uncertain. Returns how many are, whose indices are in the
  // thread's scratch.
  template <typename Visit>
  int64_t for_each_row(const LayerRows& rows, Visit visit) const;
  // The uncertain rows, gathered.
  LayerRows gather(const LayerRows& rows, int64_t count) const;
  bool falls_back() const { return fallback_ != nullptr && test_.k() > 0; }

  // All that a ranking of the k best looks at, and at least the `least` best.
  BestLogits best(const ScreenRow& row, int64_t k, int64_t least) const;
  // The k best into `log_prob` and `token`; returns the log normalizer. The row's logits are overwritten.
  float rank(const ScreenRow& row, const BestLogits& best, int64_t k, float* log_prob, int32_t* token) const;
  float rank_floats(const ScreenRow& row, int64_t k, float* log_prob, int32_t* token) const;
  float rank_int8(const ScreenRow& row, const BestLogits& best, int64_t k, float* log_prob, int32_t* token) const;
  float log_total(const ScreenRow& row) const;
  // The log of the share that a token outside the row's set has of all tokens outside.
  float log_share_outside(const ScreenRow& row, int32_t token) const;
  int64_t reaching(const ScreenRow& row, const BestLogits& seeds, int64_t k, float total, int32_t* found) const;

  OutputMatrix matrix_;
  ScreenSets sets_;
  ResidualMass residual_;
  FallbackTest test_;
  const RowLayer* fallback_;
  mutable std::atomic<int64_t> seen_{0}, fallen_back_{0};
};

}  // namespace sharpbeam
