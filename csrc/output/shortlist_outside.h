// A fallback test under a set of tokens: what the tokens outside may reach, from a row's hidden vector and its set's
// logits.
//
// A small network predicts the log of the mass outside, the sum of exp(logit), and how far off that usually is:
//
//   mean, log deviation = outer max(0, inner h + bias) + direct (best logit of the set, log of the set's mass, 1).
//
// A row passes at a cutoff, a logit, if cutoff - mean >= threshold * deviation: no token outside reaches it. Its
// normalizer is log(mass of the set + exp mean) where the second part is at most `most_share` of it. Both are measured
// on held-out rows, and neither is proven. NaN fails both.
#pragma once

#include <cstdint>
#include <vector>

#include "linear/float32_matrix.h"

namespace sharpbeam {

// As it was fitted; the caller keeps the arrays during construction.
struct ShortlistTestView {
  const float* inner;   // [units, dim]
  const float* bias;    // [units]
  const float* outer;   // [2, units]
  const float* direct;  // [2, 3]
  int64_t units;
  float threshold, most_share;
};

class ShortlistTest {
 public:
  // Throws std::invalid_argument for no units.
  ShortlistTest(const ShortlistTestView& view, int64_t dim);

  struct Outside {
    float mean, deviation;
  };

  int64_t units() const { return inner_.out(); }
  // inner h + bias of hidden vectors [rows, dim], into `hidden_units` [rows, units].
  void look(const Kernels& table, const float* hidden, int64_t rows, float* hidden_units) const {
    inner_.matmul(table, hidden, inner_.in(), hidden_units, units(), rows);
  }
  // Of a row, by its units, the best logit of its set and the log of the set's mass.
  Outside predict(const float* hidden_units, float best, float log_mass) const;

  bool sure(const Outside& outside, double bar) const { return bar - outside.mean >= threshold_ * outside.deviation; }
  // The log of the row's mass, set and outside; NaN where the prediction has too much of it.
  float log_total(const Outside& outside, float log_mass) const;

 private:
  Float32Matrix inner_;
  std::vector<float> outer_, direct_;
  float threshold_, most_share_;
};

}  // namespace sharpbeam
