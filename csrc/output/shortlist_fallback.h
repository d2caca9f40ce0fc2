// The output layer over a lexical shortlist with a fallback test: rows that may lack a token ask a layer of all tokens.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "output/interface.h"
#include "output/shortlist.h"
#include "output/shortlist_outside.h"

namespace sharpbeam {

// Candidates and normalizers of rows of which the test is sure are those of their sets. Where the mass outside is too
// uncertain for a normalizer, the whole answer is the other layer's; where a token outside may be among
// the best, or reach the search's floor, the tokens are the other layer's, with exact logits and the test's normalizer.
class ShortlistFallbackLayer final : public OutputLayer {
 public:
  // As ShortlistLayer; `fallback` answers the rows of which the test is not sure, and has to outlive the layer. Throws
  // std::invalid_argument for a fallback of other sizes, or that cannot leave its normalizer out.
  ShortlistFallbackLayer(Array weight, Array bias, int64_t vocab, int64_t dim, Shortlist shortlist,
                         const ShortlistTestView& test, const RowLayer* fallback, const Kernels& table);

  int64_t dim() const override { return sets_.dim(); }
  int64_t vocab() const override { return sets_.vocab(); }
  std::unique_ptr<LayerRun> open() const override;

  // Rows so far, and those of them that fell back.
  int64_t rows_seen() const { return seen_.load(std::memory_order_relaxed); }
  int64_t rows_fallen_back() const { return fallen_back_.load(std::memory_order_relaxed); }

 private:
  class Run;
  ShortlistLayer sets_;
  ShortlistTest test_;
  const NormalizingLayer* fallback_;
  mutable std::atomic<int64_t> seen_{0}, fallen_back_{0};
};

}  // namespace sharpbeam
