// The certified output layer: the exact layer's k best from a small part of the bytes, proven for every hidden vector.
//
// A basis A [D, D] and a shift a (fitted on a sample, but any will do) turn a hidden vector h into g = A h + a, so that
// the first of its coordinates hold most of what tells words apart. A word w with bias b gets y with
// A' y = w - c - r, where c is the mean of the words and r a rest near the rounding of double precision. So
//
//   b + w h = s + q + y g + r h,   s = c h,   q = b - y a.                                                       (1)
//
// Words stand in levels: those of one level are previewed with their first m coordinates, as bytes, p = q' + g1' y1',
// where the accent is "as rounded". Rare words of small norm need few, words that are often among the best need many.
// Let g2, y2 be the coordinates from m on, u = 2^-24, n = (D + 1) u / (1 - (D + 1) u), |.| the Euclidean norm. Then the
// exact layer's float logit L, a chain of fused multiply-adds, is bounded by what the following take from it:
//
//   rounded words            (y1 - y1') g1'         <= |y1 - y1'| |g1'|
//   rounded coordinates      y1 (g1 - g1')          <= |y1| (|f1 - g1'| + e)   f: g in floats, |f - g| <= e
//   what is not previewed    y2 g2                  <= |y2| (|f2| + e)
//   floats of the preview    5 u |g1'| |y1'| + 2 u |q|,  |y1'| <= |y1| + |y1 - y1'|
//   floats of the exact layer  n (|b| + |h| |w|)
//   the rest of (1)          r h                    <= z |h| N,  N = |w| + |c|,  z the largest |r| / N
//   e = n (|a| + |A| |h|), |A| the Frobenius norm: a row of A h + a is a chain of fused multiply-adds too.
//
// All but the first are inner products of numbers >= 0, so one more Cauchy-Schwarz bounds their sum by K a with
//
//   a^2 = |y2|^2 + (t |y1|)^2 + (N / 64)^2 + ((|b| + |q|) / 64)^2,
//   K^2 = (|f2| + e)^2 + ((|f1 - g1'| + e + 5 u |g1'|) / t)^2 + (64 (n + z) |h|)^2 + (64 (n + 2 u))^2,
//
// for any t > 0 (it balances the two halves). The chains of A h + a take D roundings, so n has one to spare: it pays
// for the double precision of q. The widened z pays for that of s. So L <= s + p + K a + B |y1 - y1'| with B = (1 + 6
// u) |g1'|. A word where this is below the k-th largest exact logit of any k or more words is not among the k best;
// lower bounds of their exact logits will do. K, B and a are computed in double precision and widened by 1 + 2^-20;
// bar_below pays for the rounding of the comparison.
//
// The words that are left are compared once more, by bytes of all coordinates in the model's own basis (rounding.h),
// which tell nearly all of them apart; the few that are left then get exact logits.
//
// The normaliser. Let d be the vector over the words of a level of what the preview is wrong by (shift apart). Its norm
// is nearly known, as the sum of squares over the words is a quadratic form in g2: |d| <= F with
//
//   F = sqrt(sum over j >= m of G_j (|f_j| + e)^2) + S |g1'| + H (|f1 - g1'| + e) + float terms,
//
// G_j the diagonal of Y2'Y2 plus the spectral norm of the rest of it, H the spectral norm of Y1, S the Frobenius norm
// of the rows y1 - y1'. Take exact logits of the R words with the largest previews. For the others, with weights p_w =
// exp(preview), the sum of exp(preview + d) is within |p| F + p_max phi(d_max) F^2 above, |p| F below, the sum of p,
// where phi(x) = (e^x - 1 - x) / x^2: by exp(x) >= 1 + x, and exp(x) <= 1 + x + phi(d_max) x^2 for x <= d_max.
#pragma once

#include <cstdint>
#include <vector>

#include "linear/float32_matrix.h"
#include "linear/int8_matrix.h"
#include "output/interface.h"
#include "output/rounding.h"
#include "output/words.h"

namespace sharpbeam {

// What was fitted, and what follows from it, in double precision; the caller keeps the arrays during construction.
struct PreviewView {
  const float* basis;          // A [dim, dim]
  const float* shift;          // a [dim]
  const float* centre;         // c [dim]
  const double* rows;          // y [vocab, dim]
  int64_t levels;              // from 1 to kMostLevels
  const int32_t* words;        // [vocab] every word once, level by level
  const int32_t* start;        // [levels + 1] words[start[l] : start[l + 1]] are those of level l, at least one
  const int32_t* coordinates;  // m of each level [levels], falling; but for the first multiples of kBytes
  const double* square;        // [levels, dim] sums of the squares of y2 over the level's words; 0 before m
  const double* mixed;         // [levels] at least the spectral norm of Y2'Y2 without its diagonal
  const double* head_norm;     // [levels] at least H
  double rest;                 // at least z
  double balance;              // t
};

constexpr int64_t kMostLevels = 16;

class CertifiedLayer final : public NormalisingLayer {
 public:
  // `weight` [vocab, dim] is shared, and must not change; `bias` [vocab] and the view are copied. `trust` multiplies
  // all bounds of words: 1 is proven, tests take less. `tolerance` is for the normaliser of topk and log_prob. Throws
  // std::invalid_argument as Words does, and for a bad view.
  CertifiedLayer(Array weight, const float* bias, int64_t vocab, int64_t dim, const PreviewView& view,
                 const Kernels& table, float tolerance, float trust);

  ~CertifiedLayer() override;

  int64_t vocab() const override { return words_.vocab(); }
  int64_t dim() const override { return words_.dim(); }

  void rank(const LayerRows& rows, int64_t k, bool normalise, float* log_prob, int32_t* token) const override {
    rank(rows, k, normalise, log_prob, token, nullptr, nullptr);
  }
  void score(const LayerRows& rows, const int32_t* token, bool normalise, float* log_prob) const override;

  // The same, for tests and reports: `total` [rows] gets log_total's, 0 without `normalise`; `left` [rows] how many
  // tokens the preview did not rule out. Either may be null.
  void rank(const LayerRows& rows, int64_t k, bool normalise, float* log_prob, int32_t* token, float* total,
            int32_t* left) const;

  // The log-sum-exp `total` [rows] of the exact layer's logits, with a proven `error` [rows] each, from exact logits of
  // `refined` words; where the error is above `tolerance`, from all exact logits.
  void log_total(const float* hidden, int64_t rows, int64_t refined, float tolerance, float* total, float* error) const;

  static constexpr int64_t kRefined = 256;  // words that topk refines for a proven total
  static constexpr int64_t kSeeds = 16;     // words that the threshold is taken from

 private:
  struct Level;
  struct Edge;
  struct Row;
  void add_level(const PreviewView& view, int64_t index);
  // Calls visit(row number, Row, previews) for each row, in blocks that fit the cache.
  template <typename Visit>
  void for_each_row(const float* hidden, int64_t rows, Visit visit) const;
  Row bounded(const float* hidden, const float* coordinates, int8_t* bytes) const;
  void proven_total(const float* hidden, const Row& row, const float* preview, int64_t refined, float tolerance,
                    float* total, float* error) const;
  // Compares `count` words of the largest previews.
  void seed(const Row& row, const float* preview, int64_t count) const;
  // Compares all words that can be among the k best when `total` is taken off; how many.
  int64_t candidates(const Row& row, const float* preview, int64_t k, float total) const;
  // The k best of the `count` tokens that were compared last.
  void rank_candidates(const float* hidden, int64_t count, int64_t k, float total, float* log_prob,
                       int32_t* token) const;
  // The k-th largest lower bound of the exact logits of the words that were compared.
  float threshold(int64_t known, int64_t k) const;
  // Compares the words of `place` [count] by all their bytes.
  void compare(const Row& row, const int32_t* place, int64_t count) const;
  // Finds the places of words whose exact logit may reach `bar`, as their previews say; how many.
  int64_t reaching(const Row& row, const float* preview, float bar) const;

  Words words_;
  RoundedWords rounded_;
  Float32Matrix basis_;
  std::vector<Level> level_;
  std::vector<int32_t> word_;  // [vocab] by place: the order of the previews
  Buffer constant_;            // q of each place
  Buffer norm_, lost_;         // a and |y1 - y1'| of each place
  Buffer square_;              // [levels, dim] of the view
  std::vector<float> centre_;
  double basis_norm_, shift_norm_, centre_norm_, rest_, balance_;
  int64_t most_coordinates_ = 0;
  float tolerance_, trust_;
};

}  // namespace sharpbeam
