// The int8 scan: approximate logits of all tokens in one pass over their int8 rows, then exact ones of every token that
// could be among the k best. The k best are the exact layer's, proven; the normalizer is an estimate, which states its
// error (candidates.h). csrc/output/int8_bounds.h has the proof.
#pragma once

#include <cstdint>
#include <vector>

#include "linear/int8_matrix.h"
#include "output/candidates.h"
#include "output/int8_bounds.h"
#include "output/interface.h"
#include "output/output_matrix.h"

namespace sharpbeam {

class ScanLayer final : public NormalizingLayer {
 public:
  // `weight` [vocab, dim] is shared, and must not change; `bias` [vocab] is copied. `trust` multiplies A and B of the
  // bounds: 1 is proven, tests take less to see that the bound matters. Throws std::invalid_argument as OutputMatrix
  // and Int8Matrix do.
  ScanLayer(Array weight, const float* bias, int64_t vocab, int64_t dim, const Kernels& table, float trust);

  int64_t vocab() const override { return matrix_.vocab(); }
  int64_t dim() const override { return matrix_.dim(); }
  bool estimates() const override { return true; }
  bool has_closer() const override { return vocab() > 16 * kCloser; }  // else exact ones cost little more
  void closer_totals(const LayerRows& rows) const override;
  void exact_totals(const LayerRows& rows, float* total) const override {
    matrix_.log_totals(rows.hidden, rows.rows, total);
  }

  // log_prob = logit - total, at most 0, where total is the log-sum-exp of the int8 logits with the kRefined largest
  // replaced by exact ones; or of exact ones alone, where int8 is too coarse for the row (candidates.h).
  void rank(const LayerRows& rows, int64_t k, bool normalize, float* log_prob, int32_t* token) const override {
    rank(rows, k, normalize, log_prob, token, nullptr, nullptr);
  }
  void score(const LayerRows& rows, const int32_t* token, bool normalize, float* log_prob) const override;

  // The same, for tests and reports: `total` [rows] gets the normalizer, 0 without `normalize`; `rescored` [rows] how
  // many tokens took exact logits, vocab where many did. Either may be null.
  void rank(const LayerRows& rows, int64_t k, bool normalize, float* log_prob, int32_t* token, float* total,
            int32_t* rescored) const;

  // Tokens whose logits in the normalizer are exact, and in a closer one.
  static constexpr int64_t kRefined = 16, kCloser = 256;

 private:
  // A row with what its int8 form is worth and the approximate logits of all tokens.
  struct ScannedRow {
    int64_t index;
    const float* hidden;
    const Int8Hidden& form;
    float* logits;
  };
  void add_to_mean(int64_t token, double times);
  void set_longest();
  Bound bound_of(const Int8Hidden& row) const;
  template <typename Visit>
  void for_each_row(const LayerRows& rows, Visit visit) const;
  // The normalizer of a row with the exact logits of the `refined` best, and how far it may be off.
  float total_of(const ScannedRow& row, int64_t refined, CandidateScratch& scratch, float& error) const;

  OutputMatrix matrix_;
  Int8Matrix int8_;
  Buffer norm_, most_norm_;                   // a of each token, and the largest of each panel
  Buffer lost_, most_lost_;                   // c of each token, and the largest of each panel
  std::vector<int32_t> longest_;              // tokens with a of many times the usual size, where they are few
  double mean_norm_ = 0.0, mean_lost_ = 0.0;  // root mean squares of a and c of the others
  std::vector<double> mean_;  // [dim] of usual rows: what the int8 form of h adds to the mean logit is (h' - h) mean
  float trust_;
};

}  // namespace sharpbeam
