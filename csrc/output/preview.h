// The proven output layer: the exact layer's best tokens from a small part of the bytes of an int8 scan, with proof.
//
// A token whose preview and bound (preview_codes.h) are below a bar is not among those asked for. The bar is the k-th
// largest exact logit of any k or more tokens; or, where a beam search says what it can use, the least that can still
// be among its best candidates, by exact logits of a few likely tokens of all its rows. Panels of 64 tokens are tested
// first, by the largest preview and bound of their tokens. The tokens that are left are compared once more, by all
// their coordinates; the few that are left then get exact logits.
#pragma once

#include <cstdint>

#include "output/exact.h"
#include "output/interface.h"
#include "output/output_matrix.h"
#include "output/preview_codes.h"

namespace sharpbeam {

// The normalizer of a row, log of the sum of
//   exp(logit) by all coordinates of the tokens that may be at most `refined` below the best known one, and exact where
//     it is then at most `exact` below it,
//   `near` times exp(preview) of the other tokens in panels that may hold one at most `summed` below it, and
//   `far` times exp(largest preview) of every other panel.
// "May" is by `share` of the bounds. All six are calibrated on a sample. So is the error that is stated with each
// normalizer, in nats: `spread` times the share of the sum that `near` and `far` are taken of, and `unsure` times the
// fourth root of what the best known token leaves to others (where it leaves nothing, of 2^-12).
// refined <= summed.
struct Normalizer {
  float share, exact, refined, summed;
  double near, far;
  double spread = 0.0, unsure = 0.0;
};

// How calls went, summed over rows.
struct ProvenCounts {
  int64_t rows = 0;
  int64_t previewed = 0;  // tokens that the preview did not rule out
  int64_t compared = 0;   // tokens that all coordinates did not rule out either: they took exact logits
  int64_t refined = 0;    // tokens of normalizers that were looked at by all coordinates
  int64_t exact = 0;      // of them, that took exact logits
  int64_t skipped = 0;    // rows without a token that can matter
  int64_t whole = 0;      // rows that took the exact logits of all tokens
};

class PreviewLayer final : public NormalizingLayer {
 public:
  // `weight` [vocab, dim] and `bias` [vocab] are shared, and must not change; the view is copied. `estimates`: whether
  // searches take exact normalizers where a decision needs them, for which all weights are packed at the first one.
  // Throws std::invalid_argument as OutputMatrix and PreviewCodes do.
  PreviewLayer(Array weight, Array bias, int64_t vocab, int64_t dim, const LowBitView& view, Normalizer normalizer,
               bool estimates, const Kernels& table);

  int64_t vocab() const override { return matrix_.vocab(); }
  int64_t dim() const override { return matrix_.dim(); }
  int64_t row_cost() const override { return preview_.places() * preview_.depth() / 4; }
  bool estimates() const override { return estimates_; }
  void exact_totals(const LayerRows& rows, float* total) const override {
    exact_.totals(rows.hidden, rows.rows, total);
  }

  void rank(const LayerRows& rows, int64_t k, bool normalize, float* log_prob, int32_t* token) const override {
    ProvenCounts counts;
    rank(rows, k, normalize, log_prob, token, nullptr, counts);
  }
  void score(const LayerRows& rows, const int32_t* token, bool normalize, float* log_prob) const override;

  // The same, for tests and reports: `total` [rows] gets the normalizer, 0 without `normalize`; it may be null.
  void rank(const LayerRows& rows, int64_t k, bool normalize, float* log_prob, int32_t* token, float* total,
            ProvenCounts& counts) const;

  // The normalizers [rows] of hidden vectors [rows, dim] as another choice gives them: for calibrating it.
  void totals(const float* hidden, int64_t rows, const Normalizer& normalizer, float* total,
              ProvenCounts& counts) const;

  static constexpr int64_t kSeeds = 8;  // panels that a bar is taken from

 private:
  struct Row;
  // Calls visit(first row, rows, their Rows) for blocks that fit the cache.
  template <typename Visit>
  void for_each_block_of_rows(const float* hidden, int64_t rows, const int32_t* request, Visit visit) const;
  // Exact logits of the best token of each of the `seeds` panels with the largest previews.
  void seed(Row& row, int64_t seeds) const;
  // The places of the tokens that may reach `bar`, rising, into the scratch; how many.
  int64_t reaching(const Row& row, float bar) const;
  // The normalizer and its error, into the row.
  void estimate(Row& row, const Normalizer& normalizer, ProvenCounts& counts) const;
  // Of the tokens in the `count` places of the scratch.
  double refined_total(const Row& row, const Normalizer& normalizer, int64_t count, ProvenCounts& counts) const;
  // The least log probability of each row that can matter, from the seeds of all rows of a request.
  void set_floors(Row* row, int64_t first, int64_t rows, const LayerRows& given) const;
  void exact_logits(const Row& row, int64_t count, float* logits) const;
  void rank_row(const Row& row, int64_t k, bool normalize, float* log_prob, int32_t* token, ProvenCounts& counts) const;

  OutputMatrix matrix_;
  PreviewCodes preview_;
  Normalizer normalizer_;
  bool estimates_;
  ExactLayer exact_;
};

}  // namespace sharpbeam
