// Low-bit previews of all tokens' logits, with a bound of how far off each can be.
//
// A basis A [D, D] and a shift a (fitted on a sample of hidden vectors, but any will do) map a hidden vector h to
// g = A h + a. A token w with bias b gets y with A' y = w - c - r, where c is the mean of the tokens and r a remainder
// of the size of double precision's rounding. So
//
//   b + w h = s + q + y g + r h,   s = c h,   q = b - y a.                                                       (1)
//
// Tokens stand in levels: those of a level are previewed with their first m coordinates, in 4 bits, p = q' + g1' y1',
// where the accent is "as quantized". Let g2, y2 be the coordinates from m on, T a diagonal matrix with positive
// entries, M the largest one, u = 2^-24, n = (D + 1) u / (1 - (D + 1) u), |.| the Euclidean norm. The exact layer's
// float logit L, a chain of fused multiply-adds, differs from s + p by at most the sum of
//
//   quantized tokens         ((y1 - y1') / T) (T g1')  <= |(y1 - y1') / T| |T g1'|
//   quantized coordinates    y1 (g1 - g1')             <= |y1| (|f1 - g1'| + e)   f: g in floats, |f - g| <= e
//   what is not previewed    (y2 / T) (g2 T)           <= |y2 / T| (|f2 T| + M e)
//   floats of the preview    5 u |g1'| |y1'| + 2 u |q|,  |y1'| <= |y1| + M |(y1 - y1') / T|
//   floats of the exact layer  n (|b| + |h| |w|)
//   the remainder of (1)     r h                       <= z |h| N,  N = |w| + |c|,  z the largest |r| / N
//   e = n (|a| + |A| |h|), |A| the Frobenius norm: a row of A h + a is a chain of fused multiply-adds too.
//
// All but the first are inner products of numbers >= 0, so one more Cauchy-Schwarz bounds their sum by K k with
//
//   k^2 = |y2 / T|^2 + (t |y1|)^2 + (N / 64)^2 + ((|b| + |q|) / 64)^2,
//   K^2 = (|f2 T| + M e)^2 + ((|f1 - g1'| + e + 5 u |g1'|) / t)^2 + (64 (n + z) |h|)^2 + (64 (n + 2 u))^2,
//
// for any t > 0 (it balances the two halves). The chains of A h + a take D roundings, so n has one to spare: it pays
// for the double precision of q. The widened z pays for that of s. So L <= s + p + K k + B |(y1 - y1') / T| with
// B = |T g1'| + 6 u M |g1'|. K, B and k are computed in double precision and widened by 1 + 2^-20.
//
// A token where this is below a bar is not among those asked for. The bar is the k-th largest exact logit of any k or
// more tokens, or a floor that the search gives. Panels of 64 tokens are tested first, by the largest preview and the
// largest k and |(y1 - y1') / T| of their tokens, which is more than any of them has.
//
// For the tokens that are left the other coordinates are looked up too, in 4 bits: p2 = p + g2' y2'. The same bound
// holds for all coordinates at once, with nothing left out and one more sum of floats: 7 u |g'| |y'| + 3 u |q| in place
// of the floats of the preview. The few that are left then get exact logits.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "linear/float32_matrix.h"
#include "linear/int4_panels.h"
#include "linear/int4_row.h"
#include "output/output_matrix.h"

namespace sharpbeam {

// The fitted values and what follows from them, in double precision; the caller keeps the arrays during construction.
struct LowBitView {
  const float* basis;          // A [dim, dim]
  const float* shift;          // a [dim]
  const float* center;         // c [dim]
  const double* rows;          // y [vocab, dim]
  const double* balance;       // T [dim], positive: a fitted vector has coordinates g of about 1 / T^2
  int64_t levels;              // from 1 to kMostPreviewLevels
  const int32_t* tokens;       // [vocab] every token once, level by level
  const int32_t* start;        // [levels + 1] tokens[start[l] : start[l + 1]] are those of level l, at least one
  const int32_t* coordinates;  // m of each level [levels], falling: multiples of 8, at most dim rounded up to one
  const double* trust;         // [levels] what multiplies the bounds of a level: 1 is proven, less is calibrated
  double whole_trust;          // the same for the bound of all coordinates
  double remainder;            // at least z
};

constexpr int64_t kMostPreviewLevels = 16;

// A hidden vector's part of the bounds, level by level.
struct PreviewBound {
  bool sound;    // false: not finite, too large or too small for a bound
  bool usual;    // false: more than four times as far from the mean as vectors of the fit, so that sums are no estimate
  float scale;   // of the int8 coordinates
  double shift;  // s
  struct Edge {
    float by_slack, by_lost;  // K and B
  } edge[kMostPreviewLevels], whole;
};

class PreviewCodes {
 public:
  // Throws std::invalid_argument for a bad view.
  PreviewCodes(const OutputMatrix& matrix, const LowBitView& view);

  int64_t panels() const { return panels_; }
  int64_t places() const { return panels_ * kPanel; }  // of previews, level by level; some are empty
  int64_t depth() const { return depth_; }             // int8 coordinates of a hidden vector, and zeros
  int32_t token(int64_t place) const { return token_[static_cast<size_t>(place)]; }  // -1 where it is empty

  // The coordinates [rows, dim] of hidden vectors [rows, dim].
  void coordinates(const Kernels& table, const float* hidden, int64_t rows, float* out) const;
  // The bound of one of them, and its int8 coordinates [depth].
  PreviewBound bound(const Kernels& table, const float* hidden, const float* coordinates, int8_t* int8) const;
  // Previews [rows, places] and the largest one of each panel, top [rows, panels], of int8 coordinates [rows, depth].
  void compute(const Kernels& table, const int8_t* int8, const float* scale, int64_t rows, float* preview,
               float* top) const;
  // Calls visit(panels [count], count, edge) for each level with the panels, rising, that have a token whose logit may
  // reach bar + s, by `share` of the bounds: one level after another in `panels`, of a size of all and kLanes more.
  template <typename Visit>
  void for_each_level(const Kernels& table, const PreviewBound& bound, const float* top, float share, float bar,
                      int32_t* panels, Visit visit) const {
    for (size_t l = 0; l < level_.size(); ++l) {
      const int64_t first = level_[l].first;
      const auto& edge = bound.edge[l];
      const int64_t count =
          table.find_at_least(top + first, panel_slack_.get() + first, panel_lost_.get() + first, edge.by_slack * share,
                              edge.by_lost * share, bar, level_[l].panels.panels(), panels);
      for (int64_t i = 0; i < count; ++i) panels[i] += static_cast<int32_t>(first);
      visit(panels, count, edge);
      panels += count;
    }
  }
  // The places of such panels whose token's logit may reach bar + s; how many. `found` has
  // their size and kLanes more.
  int64_t find_in_panels(const Kernels& table, const PreviewBound::Edge& edge, const int32_t* panels, int64_t count,
                         const float* preview, float share, float bar, int32_t* found) const {
    return table.find_in_panels(preview, slack_.get(), lost_.get(), edge.by_slack * share, edge.by_lost * share, bar,
                                panels, count, found);
  }

  // Of `places` [count], rising: near [count] as all coordinates preview it, without s, and its bound, slack [count].
  void refine(const Kernels& table, const PreviewBound& bound, const int8_t* int8, const float* preview,
              const int32_t* places, int64_t count, float* near, float* slack) const;

 private:
  struct Level {
    int64_t first;  // panel
    Int4Panels panels;
    Int4Rows rest;  // the coordinates that the panels do not have
    float trust;
  };
  void add_level(const OutputMatrix& matrix, const LowBitView& view, int64_t index);

  Float32Matrix basis_;
  std::vector<Level> level_;
  struct Whole {
    float scale, slack, lost;  // of the coordinates that the panels do not have; k and |(y - y') / T| of all
  };

  std::vector<int32_t> token_;       // of each place
  Buffer slack_, lost_;              // k and |(y1 - y1') / T| of each place
  Buffer panel_slack_, panel_lost_;  // the largest of each panel
  std::vector<Whole> whole_;         // of each place
  std::vector<float> center_;
  std::vector<double> balance_;
  double basis_norm_, shift_norm_, most_balance_, remainder_, whole_trust_;
  double fitted_square_;  // |T g|^2 of a fitted vector, about: the sum of 1 / T^2
  int64_t panels_ = 0, depth_ = 0;
};

}  // namespace sharpbeam
