// Int8 previews of the logits of all tokens from a few coordinates of each, and a proven bound on what they leave out.
//
// A basis A [D, D] and a shift a (fitted on a sample, but any will do) turn a hidden vector h into g = A h + a, so that
// the first of its coordinates hold most of what tells tokens apart. A token w with bias b gets y with
// A' y = w - c - r, where c is the mean of the tokens and r a rest near the rounding of double precision. So
//
//   b + w h = s + q + y g + r h,   s = c h,   q = b - y a.                                                       (1)
//
// Tokens are in levels: those of one level are previewed with their first m coordinates, in int8, p = q' + g1' y1',
// where the accent is "as quantized". Rare tokens of small norm need few, tokens that are often among the best need
// many. Let g2, y2 be the coordinates from m on, u = 2^-24, n = (D + 1) u / (1 - (D + 1) u), |.| the Euclidean norm.
// Then the exact layer's float logit L, a chain of fused multiply-adds, is bounded by what the following take from it:
//
//   quantized tokens         (y1 - y1') g1'         <= |y1 - y1'| |g1'|
//   quantized coordinates    y1 (g1 - g1')          <= |y1| (|f1 - g1'| + e)   f: g in floats, |f - g| <= e
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
// u) |g1'|. A token where this is below the k-th largest exact logit of any k or more tokens is not among the k best;
// lower bounds of their exact logits will do. K, B and a are computed in double precision and widened by 1 + 2^-20;
// bar_below pays for the rounding of the comparison.
//
// The normaliser. Let d be the vector over the tokens of a level of what the preview is wrong by (shift apart). Its
// norm is nearly known, as the sum of squares over the tokens is a quadratic form in g2: |d| <= F with
//
//   F = sqrt(sum over j >= m of G_j (|f_j| + e)^2) + S |g1'| + H (|f1 - g1'| + e) + float terms,
//
// G_j the diagonal of Y2'Y2 plus the spectral norm of the rest of it, H the spectral norm of Y1, S the Frobenius norm
// of the rows y1 - y1'. Take exact logits of the R tokens with the largest previews. For the others, with weights p_w =
// exp(preview), the sum of exp(preview + d) is within |p| F + p_max phi(d_max) F^2 above, |p| F below, the sum of p,
// where phi(x) = (e^x - 1 - x) / x^2: by exp(x) >= 1 + x, and exp(x) <= 1 + x + phi(d_max) x^2 for x <= d_max.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "linear/float32_matrix.h"
#include "linear/int8_matrix.h"
#include "output/output_matrix.h"

namespace sharpbeam {

// The fitted values and what follows from them, in double precision; the caller keeps the arrays during construction.
struct PreviewView {
  const float* basis;          // A [dim, dim]
  const float* shift;          // a [dim]
  const float* center;         // c [dim]
  const double* rows;          // y [vocab, dim]
  int64_t levels;              // from 1 to kMostLevels
  const int32_t* tokens;       // [vocab] every token once, level by level
  const int32_t* start;        // [levels + 1] tokens[start[l] : start[l + 1]] are those of level l, at least one
  const int32_t* coordinates;  // m of each level [levels], falling; but for the first multiples of kInt8Group
  const double* square;        // [levels, dim] sums of the squares of y2 over the level's tokens; 0 before m
  const double* mixed;         // [levels] at least the spectral norm of Y2'Y2 without its diagonal
  const double* head_norm;     // [levels] at least H
  double rest;                 // at least z
  double balance;              // t
};

constexpr int64_t kMostLevels = 16;

// A hidden vector's part of the bounds.
struct PreviewRow {
  bool bounded;               // false: not finite, too large or too small for the bound; the row takes exact logits
  float scale;                // of its int8 coordinates
  double shift;               // s
  double size;                // |h|
  struct Edge {               // of the tokens of a level
    double by_norm, by_lost;  // K and B
    double spread;            // F
  } edge[kMostLevels];
};

class Preview {
 public:
  // `trust` multiplies the bounds of tokens: 1 is proven, tests take less. Throws std::invalid_argument for a bad view.
  Preview(const OutputMatrix& matrix, const PreviewView& view, float trust);

  // The int8 coordinates of a hidden vector, and those that they are made of.
  int64_t int8_width() const { return padded_int8(most_coordinates_); }
  int64_t dim() const { return basis_.in(); }

  // Coordinates [rows, dim] of hidden vectors [rows, dim].
  void project(const Kernels& table, const float* hidden, int64_t rows, float* coordinates) const;
  // Quantizes the coordinates of one hidden vector to `int8`, and bounds what its previews miss; `squares` [dim] is
  // scratch.
  PreviewRow row(const Kernels& table, const float* hidden, const float* coordinates, int8_t* int8,
                 float* squares) const;
  // Previews of all tokens, by place, into `preview` [rows, stride].
  void compute(const Kernels& table, const int8_t* int8, const float* scale, int64_t rows, float* preview,
               int64_t stride) const;

  int32_t token(int32_t place) const { return token_[static_cast<size_t>(place)]; }
  // So many places hold nearly all of the best tokens, and at least `least` tokens.
  int64_t likely_places(int64_t least) const;
  // The places of tokens whose exact logit may reach `bar`, into `place`; returns how many.
  int64_t find_at_least(const Kernels& table, const PreviewRow& row, const float* preview, float bar,
                        int32_t* place) const;

  // A log-sum-exp of exact logits, with a proven error.
  struct Interval {
    float total, error;
  };
  // That of all tokens. `known` is the log-sum-exp of those whose exact logits were computed, less the row's shift;
  // `rest` [vocab] are the previews of the others, by place, -inf for the known ones, and is overwritten; `most` is at
  // least the largest of them.
  Interval log_total(const Kernels& table, const PreviewRow& row, double known, double most, float* rest) const;

 private:
  struct Level {
    int64_t first, count;  // places of its tokens
    Int8Matrix preview;
    double mixed, head_norm, most_square;  // most_square: at least the largest G
    double lost_norm, sizes, offsets;      // Frobenius norms over the tokens of y1 - y1', N and |b| + |q|
    double most_norm, most_lost;           // largest a and |y1 - y1'|
  };
  // Sums of squares over a hidden vector's coordinates: those that a level does not preview, those that it does, in
  // int8, and the quantization errors of these.
  struct Squares {
    double tail[kMostLevels], head[kMostLevels], moved[kMostLevels];
  };
  void add_level(const OutputMatrix& matrix, const PreviewView& view, int64_t index);
  Squares squares_of(const float* coordinates, const int8_t* int8, double scale) const;
  // `form`: the quadratic form of G without its mixed part; `error`: e.
  PreviewRow::Edge edge(const Level& level, double tail_square, double head, double moved, float form, double size,
                        double error) const;

  Float32Matrix basis_;
  std::vector<Level> level_;
  std::vector<int32_t> token_;  // [vocab] by place: the order of the previews
  Buffer constant_;             // q of each place
  Buffer norm_, lost_;          // a and |y1 - y1'| of each place
  Buffer square_;               // [levels, dim] of the view
  std::vector<float> center_;
  double basis_norm_, shift_norm_, center_norm_, rest_, balance_;
  int64_t most_coordinates_ = 0;
  float trust_;
};

}  // namespace sharpbeam
