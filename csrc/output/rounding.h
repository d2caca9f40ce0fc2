// Hidden vectors and words as bytes, and how far off the logits of bytes can be: what the scan and the certified
// output layer share.
//
// The proof. Let h be the hidden vector, h' what its bytes stand for (scale times whole numbers), w and w' the same of
// a word, b its bias, u = 2^-24, D the width, |.| the Euclidean norm.
//
//   The real logit l = b + h w and the bytes' l' = b + h' w' are no further apart than
//     |h w - h' w'| = |(h - h') w + h' (w - w')| <= |h - h'| |w| + |h'| |w - w'|.
//   The exact layer's float logit L, a chain of D fused multiply-adds from b, has |L - l| <= g (|b| + |h| |w|),
//     g = D u / (1 - D u).
//   The float logit L' of bytes takes the exact whole sum, one conversion, two products and a sum:
//     |L' - l'| <= 5 u (|b| + |h'| |w'|), and |w'| <= |w| + |w - w'|.
//
// So |L - L'| <= A a + B c with a = |w| + |b| / 256, c = |w - w'|, B = (1 + 6 u) |h'| and A the larger of
// |h - h'| + g |h| + 5 u |h'| and 256 (g + 5 u), which pays for the biases. Let t be the k-th largest exact logit of
// any k or more words: a word with L' + A a + B c < t is not among the k best. A, B, a, c are computed in double
// precision and rounded up with a factor 1 + 2^-20, and t is lowered by 2^-20 of its size, which is more than the
// rounding of the comparison itself takes.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "kernels/table.h"
#include "output/words.h"

namespace sharpbeam {

// A hidden vector as bytes.
struct RoundedHidden {
  bool sound;              // false: not finite, too large or too small for the bound; it takes the exact way
  float scale;             // of its bytes
  float by_norm, by_lost;  // A and B
};

// Rounds `hidden` [dim] to `bytes` [padded], zero from dim on. `trust` multiplies A and B: 1 is proven.
RoundedHidden round_hidden(const Kernels& table, const float* hidden, int64_t dim, int64_t padded, float trust,
                           int8_t* bytes);

// a of a word, rounded up, and x >= 0 as a float that is larger by 2^-20 or more.
float norm_of(const Words& words, int64_t word);
float widened(double x);

// All words as bytes, one row behind the other: logits of the few words that another test has left.
class RoundedWords {
 public:
  explicit RoundedWords(const Words& words);

  // Bytes of a row; a hidden vector that is compared with one is padded to as many.
  int64_t padded() const { return stride_; }
  // L' of `words` [count] into `near`, and how far the exact logit can be from it, A a + B c, into `slack`.
  void logits(const Kernels& table, const int8_t* bytes, const RoundedHidden& hidden, const int32_t* words,
              int64_t count, float* near, float* slack) const;

 private:
  struct Word {
    float scale, bias, norm, lost;
  };
  Buffer bytes_;
  std::vector<Word> word_;
  int64_t stride_;
};

}  // namespace sharpbeam
