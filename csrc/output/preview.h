// The preview: approximate logits of all tokens by product quantization with 4-bit codes, then exact ones of every
// token that is left. With fidelity 1 the scan takes its place (output/int8_bounds.h).
//
// A fit (src/sharpbeam/fit/preview.py) writes a hidden vector h as g = A h + a, in coordinates that are independent
// and of variance 1 over the vectors of the fit, and a token's row w as a sum of code words, one for each group of
// coordinates, times a scale. So b + w h is about
//
//   c h + q + scale * (sum over codes of word g),   c the mean row, q the token's offset.
//
// A row h makes one table of kCodeWords entries for each code, rounded to bytes with one step for all tables, and the
// kernel adds up a token's entries (kernels/table.h, preview_codes).
//
// How far off a token is: over vectors of the fit the rounding of its codes has the standard deviation d, which was
// measured for the token, and grows with the size of g, s times that of a vector of the fit; tables round each entry,
// by a share of their step t that is even between -1/2 and 1/2. So a token with m codes has the deviation sqrt((s d)^2
// + m (t scale)^2 / 12) <= s d + m t^2 / (24 s) scale^2 / d. A token is left out if it is below the cutoff by more than
// `deviations` times that. The cutoff is the k-th largest exact logit of a few likely tokens, or, if a beam search says
// what it can use, the least that can still be among its candidates. That is no proof: the layer is as good as the
// standard deviations are, on any text (docs/lab/previews.md has the measurements).
#pragma once

#include <cstdint>
#include <vector>

#include "linear/float32_matrix.h"
#include "output/interface.h"
#include "output/output_matrix.h"

namespace sharpbeam {

// The fitted arrays, of finite numbers; the caller keeps them during construction.
struct PreviewView {
  const float* basis;      // A [dim, dim]
  const float* shift;      // a [dim]
  const float* center;     // c [dim]
  const float* words;      // [kCodeWords, dim] the code words: word i of a code has coordinates of column i
  const int32_t* lengths;  // [codes] coordinates of each code, in their order; at least 1, dim altogether
  int64_t codes;           // at most kMaxCodes
  const int32_t* packed;   // [vocab, (codes + 7) / 8] eight codes of a token in a number, the first in its low bits
  const float* scale;      // [vocab]
  const float* offset;     // q [vocab]
  const float* deviation;  // d [vocab], not negative
  float deviations;        // how many
};

// The normalizer of a row is the log of the sum of exp(exact logit) of the tokens that may be at most `depth` below the
// best known one, and of `near` times exp(preview) of the others, panel by panel, with panels of 64 tokens that are all
// below that by `kClosed` more counted as `far` times exp(their largest preview). Its error, in nats, is taken to be at
// most `spread` times the root of the share of the others.
struct PreviewNormalizer {
  float depth;
  double near, far, spread;
};

// How calls went, summed over rows.
struct PreviewCounts {
  int64_t rows = 0;
  int64_t exact = 0;    // tokens that took exact logits
  int64_t skipped = 0;  // rows without a token that can matter
  int64_t whole = 0;    // rows that took the exact logits of all tokens
};

class PreviewLayer final : public NormalizingLayer {
 public:
  // `weight` [vocab, dim] is shared, and must not change; `bias` [vocab] and the view are copied. Throws
  // std::invalid_argument as OutputMatrix does, and for a view that is not as its comments say.
  PreviewLayer(Array weight, const float* bias, int64_t vocab, int64_t dim, const PreviewView& view,
               const PreviewNormalizer& normalizer, const Kernels& table);

  int64_t vocab() const override { return matrix_.vocab(); }
  int64_t dim() const override { return matrix_.dim(); }
  int64_t row_cost() const override { return panels_ * kPanel * groups_; }
  bool estimates() const override { return true; }
  bool rough() const override { return true; }
  bool has_closer() const override { return true; }
  void closer_totals(const LayerRows& rows) const override;
  void exact_totals(const LayerRows& rows, float* total) const override {
    matrix_.log_totals(rows.hidden, rows.rows, total);
  }

  void rank(const LayerRows& rows, int64_t k, bool normalize, float* log_prob, int32_t* token) const override {
    PreviewCounts counts;
    rank(rows, k, normalize, log_prob, token, nullptr, counts);
  }
  void score(const LayerRows& rows, const int32_t* token, bool normalize, float* log_prob) const override;

  // The same, for tests and reports: `total` [rows] gets the normalizer, 0 without `normalize`; it may be null.
  void rank(const LayerRows& rows, int64_t k, bool normalize, float* log_prob, int32_t* token, float* total,
            PreviewCounts& counts) const;

  // The normalizers [rows] of hidden vectors [rows, dim] by another choice, for calibrating it, and the share [rows] of
  // each that is not exact.
  void totals(const float* hidden, int64_t rows, const PreviewNormalizer& normalizer, float* total, float* share) const;

  static constexpr int64_t kSeeds = 8;    // panels that a bar is taken from
  static constexpr float kClosed = 8.0f;  // nats
  // Closer normalizers take exact logits this much deeper, and state this share of the spread: docs/lab/previews.md.
  static constexpr float kDeeper = 4.0f;
  static constexpr double kCloserSpread = 0.5;

 private:
  struct Row;
  // Calls visit(first row, rows, their Rows) for blocks that fit the cache.
  template <typename Visit>
  void for_each_block_of_rows(const float* hidden, int64_t rows, const int32_t* request, Visit visit) const;
  // Calls visit(row, its Row, the share of its normalizer that is not exact), on several threads.
  template <typename Visit>
  void for_each_estimate(const float* hidden, int64_t rows, const PreviewNormalizer& normalizer, Visit visit) const;
  void set_codes(const PreviewView& view);
  void set_deviations(const PreviewView& view);
  // Exact logits of the best token of each of the `seeds` panels with the largest previews.
  void seed(Row& row, int64_t seeds) const;
  // The tokens that may reach `bar`, rising, into the scratch; how many.
  int64_t reaching(const Row& row, float bar) const;
  // Whether all of the first `seeds` that reach `bar` are among `tokens` [count], which rise. If not, deviations do not
  // hold for the row: its tokens take exact logits.
  bool has_seeds(const Row& row, int64_t seeds, float bar, const int32_t* tokens, int64_t count) const;
  // The normalizer and its error, into the row; the share of it that is not exact.
  double estimate(Row& row, const PreviewNormalizer& normalizer) const;
  // The least log probability of each row that can matter, from the seeds of all rows of a request.
  void set_floors(Row* row, int64_t first, int64_t rows, const LayerRows& given) const;
  void rank_row(Row& row, int64_t k, bool normalize, float* log_prob, int32_t* token) const;

  OutputMatrix matrix_;
  Float32Matrix basis_;
  std::vector<float> center_;
  Buffer words_;  // [dim, kCodeWords]
  std::vector<int32_t> lengths_;
  int64_t groups_, panels_;
  Buffer codes_;                           // bytes, not floats
  Buffer scale_, offset_;                  // of each token, by panels
  Buffer deviation_, rounding_;            // d, and scale^2 / d
  Buffer most_deviation_, most_rounding_;  // the largest of each panel
  float deviations_;
  PreviewNormalizer normalizer_;
};

}  // namespace sharpbeam
