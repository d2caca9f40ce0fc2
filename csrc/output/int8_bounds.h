// Int8 logits of tokens, and how far they can be from the exact ones: why a scan loses none of the k best, and so a
// preview with fidelity 1, which is the scan (src/sharpbeam/output_layers/preview.py). Normalizers are estimates, and
// no part of the proof: where their stated errors leave a decision of a beam open, exact ones decide
// (search/open_scores.h).
//
// The proof. Let h be the hidden vector, h' what its int8 form stands for (scale times whole numbers), w and w' the
// same of a token, b its bias, u = 2^-24, D the width, |.| the Euclidean norm.
//
//   The real logit l = b + h w and the int8 one l' = b + h' w' are no further apart than
//     |h w - h' w'| = |(h - h') w + h' (w - w')| <= |h - h'| |w| + |h'| |w - w'|.
//   The exact layer's float logit L, a chain of D fused multiply-adds from b, has |L - l| <= g (|b| + |h| |w|),
//     g = D u / (1 - D u).
//   The float value L' of the int8 logit takes the exact whole sum, one conversion, two products and a sum:
//     |L' - l'| <= 5 u (|b| + |h'| |w'|), and |w'| <= |w| + |w - w'|.
//
// So |L - L'| <= A a + B c with a = |w| + |b| / 256, c = |w - w'|, B = (1 + 6 u) |h'| and A the larger of
// |h - h'| + g |h| + 5 u |h'| and 256 (g + 5 u), which pays for the biases. Let t be the k-th largest exact logit of
// any k or more tokens: a token with L' + A a + B c < t is not among the k best. The tokens that are left get exact
// logits, and the best of these are the answer. A, B, a, c are computed in double precision and rounded up with a
// factor 1 + 2^-20, and t is lowered by 2^-20 of its size, which is more than the rounding of the comparison itself
// takes.
//
// A and B belong to a row, and are computed here; a and c belong to a token, and are kept for all tokens. How the k
// best are found with them: output/candidates.h.
#pragma once

#include <cstdint>

#include "kernels/table.h"
#include "output/output_matrix.h"

namespace sharpbeam {

// An int8 hidden vector.
struct Int8Hidden {
  bool sound;  // false: not finite, too large or too small for the bound; the row takes exact logits
  float scale;
  float by_norm, by_lost;  // A and B
  double mean_error;       // (h' - h) m
};

// Quantizes `hidden` [dim] to `int8` [padded], zero from dim on. `trust` multiplies A and B: 1 is proven. m, `mean`
// [dim], is the mean row of the matrix.
Int8Hidden quantize_hidden(const Kernels& table, const float* hidden, const double* mean, int64_t dim, int64_t padded,
                           float trust, int8_t* int8);

// a of a token, rounded up, and x >= 0 as a float that is larger by 2^-20 or more.
float norm_of(const OutputMatrix& matrix, int64_t token);
float widened(double x);

}  // namespace sharpbeam
