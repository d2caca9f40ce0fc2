// The certified projection: the exact layer's k best from a small part of the bytes, proven for every hidden vector.
//
// A basis A [D, D] and a shift a (fitted on a sample, but any will do) turn a hidden vector h into g = A h + a, so that
// the first m of its coordinates hold most of what tells words apart. A word w with bias b gets y with
// A' y = w - c - r, where c is the mean of the words and r a rest near the rounding of double precision. So
//
//   b + w h = s + q + y g + r h,   s = c h,   q = b - y a.                                                       (1)
//
// The preview takes m coordinates of all words as bytes: p = q' + g1' y1', where the accent is "as rounded". Let g2, y2
// be the coordinates from m on, u = 2^-24, n = (D + 1) u / (1 - (D + 1) u), |.| the Euclidean norm. Then the exact
// layer's float logit L, a chain of fused multiply-adds, is bounded by what the following take from it:
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
// u) |g1'|. A word where this is below the k-th largest exact logit of any k or more words is not among the k best. K,
// B and a are computed in double precision and widened by 1 + 2^-20; Candidates pays for the rounding of the
// comparison.
//
// The normaliser. Let d be the vector over all words of what the preview is wrong by (shift apart). Its norm is nearly
// known, as the sum of squares over all words is a quadratic form in g2: |d| <= F with
//
//   F = sqrt(sum over j >= m of G_j (|f_j| + e)^2) + S |g1'| + sqrt(G_1) (|f1 - g1'| + e) + float terms,
//
// G_j the diagonal of Y'Y plus the spectral norm of the rest of it, G_1 the spectral norm of its first m, S that of the
// matrix of y1 - y1'. Take exact logits of the R words with the largest previews. For the others, with weights p_w =
// exp(preview), the sum of exp(preview + d) is within |p| F + p_max phi(d_max) F^2 above, |p| F below, the sum of p,
// where phi(x) = (e^x - 1 - x) / x^2: by exp(x) >= 1 + x, and exp(x) <= 1 + x + phi(d_max) x^2 for x <= d_max.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/int8_matrix.h"
#include "kernels/matrix.h"
#include "projections/candidates.h"
#include "projections/words.h"

namespace quickbeam {

// What was fitted, and what follows from it, in double precision; the caller keeps the arrays during construction.
struct PreviewView {
  const float* basis;   // A [dim, dim]
  const float* shift;   // a [dim]
  const float* centre;  // c [dim]
  const double* rows;   // y [vocab, dim]
  const double* gram;   // G [dim], each at least as large as said above
  int64_t coordinates;  // m
  double rest;          // at least z
  double head_norm;     // at least sqrt(G_1)
  double balance;       // t
};

// Any number of threads may use one projection at a time: each has its own scratch.
class CertifiedProjection {
 public:
  // `weight` [vocab, dim], `bias` [vocab] and the view are copied. `trust` multiplies K and B: 1 is proven, tests take
  // less. Throws std::invalid_argument as Words does, and for m outside 1 to dim.
  CertifiedProjection(const float* weight, const float* bias, int64_t vocab, int64_t dim, const PreviewView& view,
                      const Kernels& table, float trust);

  int64_t vocab() const { return words_.vocab(); }
  int64_t dim() const { return words_.dim(); }
  int64_t coordinates() const { return preview_.in(); }

  // As ScanProjection::topk: the exact layer's words and logits. `total` is the log-sum-exp of the preview with exact
  // logits for the kRefined largest, and the mean of what exp gains by the preview's errors. Where that mean makes more
  // than kMostLift of it, the row's preview is too rough: `total` is then taken from all exact logits.
  void topk(const float* hidden, int64_t rows, int64_t k, float* log_prob, int32_t* token, float* total,
            int32_t* rescored) const;
  void log_prob(const float* hidden, const int32_t* token, int64_t rows, float* log_prob) const;

  // The log-sum-exp `total` [rows] of the exact layer's logits, with a proven `error` [rows] each, from exact logits of
  // `refined` words; where the error is above `tolerance`, from all exact logits.
  void log_total(const float* hidden, int64_t rows, int64_t refined, float tolerance, float* total, float* error) const;

  static constexpr int64_t kRefined = 32;
  static constexpr double kMostLift = 0.02;

 private:
  struct Row;
  template <typename Visit>
  void for_each_row(const float* hidden, int64_t rows, Visit visit) const;
  Row bounded(const float* hidden, const float* coordinates, int8_t* bytes) const;
  float measured_total(const float* hidden, const Row& row, Candidates& candidates) const;
  float proven_total(const float* hidden, const Row& row, float* preview, int64_t refined, float* error) const;

  Words words_;
  Matrix basis_;
  Int8Matrix preview_;
  Buffer constant_;     // q of each word
  Buffer norm_, lost_;  // a and |y1 - y1'| of each word
  std::vector<float> centre_;
  std::vector<double> gram_;
  double basis_norm_, shift_norm_, rest_, head_norm_, lost_norm_, balance_;
  double sizes_ = 0.0, offsets_ = 0.0;        // norms over the words of N and of |b| + |q|
  double most_norm_ = 0.0, most_lost_ = 0.0;  // largest a and |y1 - y1'|
  double centre_norm_ = 0.0;
  float trust_;
};

}  // namespace quickbeam
