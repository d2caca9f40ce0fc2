// The certified output layer: the exact layer's k best from a small part of the bytes, proven for every hidden vector.
//
// Previews of all tokens (preview.h) and a bound on what they miss leave few tokens that can be among the k best. These
// are compared once more, by int8 numbers of all coordinates in the model's own basis (int8_bounds.h), which tell
// nearly all of them apart; the few that are left then get exact logits.
#pragma once

#include <cstdint>

#include "output/int8_bounds.h"
#include "output/interface.h"
#include "output/output_matrix.h"
#include "output/preview.h"

namespace sharpbeam {

class CertifiedLayer final : public NormalisingLayer {
 public:
  // `weight` [vocab, dim] is shared, and must not change; `bias` [vocab] and the view are copied. `trust` multiplies
  // all bounds of tokens: 1 is proven, tests take less. `tolerance` is for the normaliser of topk and log_prob. Throws
  // std::invalid_argument as OutputMatrix does, and for a bad view.
  CertifiedLayer(Array weight, const float* bias, int64_t vocab, int64_t dim, const PreviewView& view,
                 const Kernels& table, float tolerance, float trust);

  int64_t vocab() const override { return matrix_.vocab(); }
  int64_t dim() const override { return matrix_.dim(); }

  void rank(const LayerRows& rows, int64_t k, bool normalise, float* log_prob, int32_t* token) const override {
    rank(rows, k, normalise, log_prob, token, nullptr, nullptr);
  }
  void score(const LayerRows& rows, const int32_t* token, bool normalise, float* log_prob) const override;

  // The same, for tests and reports: `total` [rows] gets log_total's, 0 without `normalise`; `left` [rows] how many
  // tokens the preview did not rule out. Either may be null.
  void rank(const LayerRows& rows, int64_t k, bool normalise, float* log_prob, int32_t* token, float* total,
            int32_t* left) const;

  // The log-sum-exp `total` [rows] of the exact layer's logits, with a proven `error` [rows] each, from exact logits of
  // `refined` tokens; where the error is above `tolerance`, from all exact logits.
  void log_total(const float* hidden, int64_t rows, int64_t refined, float tolerance, float* total, float* error) const;

  static constexpr int64_t kRefined = 256;  // tokens that topk refines for a proven total
  static constexpr int64_t kSeeds = 16;     // tokens that the threshold is taken from

 private:
  struct Row {
    const float* hidden;
    PreviewRow preview;
    Int8Hidden int8;
    const int8_t* numbers;  // of the int8 hidden vector
    bool bounded() const { return preview.bounded && int8.sound; }
  };
  // Calls visit(row index, Row, previews) for each row, in blocks that fit the cache.
  template <typename Visit>
  void for_each_row(const float* hidden, int64_t rows, Visit visit) const;
  Preview::Interval proven_total(const Row& row, const float* preview, int64_t refined, float tolerance) const;
  Preview::Interval exact_total(const float* hidden, float* logits) const;
  // Compares `count` tokens of the largest previews.
  void seed(const Row& row, const float* preview, int64_t count) const;
  // Compares all tokens that can be among the k best when `total` is taken off; returns how many.
  int64_t candidates(const Row& row, const float* preview, int64_t k, float total) const;
  // Compares the tokens of `place` [count] by all their int8 numbers.
  void compare(const Row& row, const int32_t* place, int64_t count) const;
  // The k-th largest lower bound of the exact logits of the `known` tokens that were compared.
  float threshold(int64_t known, int64_t k) const;
  // The k best of the `count` tokens that were compared last.
  void rank_candidates(const float* hidden, int64_t count, int64_t k, float total, float* log_prob,
                       int32_t* token) const;

  OutputMatrix matrix_;
  Int8Rows int8_;
  Preview preview_;
  float tolerance_, trust_;
};

}  // namespace sharpbeam
