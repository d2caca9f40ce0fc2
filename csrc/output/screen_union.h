// The union of the sets of all rows of a step, scored by one gathered matmul (CVP section 2.3): the published layer.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/table.h"
#include "linear/float32_matrix.h"
#include "output/interface.h"
#include "output/output_matrix.h"
#include "output/screen_view.h"
#include "output/token_set.h"

namespace sharpbeam {

// Clusters of all rows, a mask over the vocabulary, its compaction to ascending ids, one matmul over the rows of these
// tokens, and a softmax over them; tokens outside have probability zero. Unlike every other layer, a row's answer
// depends on the other rows of the call: their tokens are candidates of it, too, and count in its normalizer.
class ScreenUnionLayer final : public RowLayer {
 public:
  // Shares `weight` [vocab, dim], which must not change; of `screen`, the clusters and their sets are copied, and the
  // rest is not looked at. Throws std::invalid_argument as OutputMatrix and check_screen do.
  ScreenUnionLayer(Array weight, const float* bias, int64_t vocab, int64_t dim, const ScreenView& screen,
                   const Kernels& table);

  int64_t vocab() const override { return matrix_.vocab(); }
  int64_t dim() const override { return matrix_.dim(); }
  int64_t row_cost() const override {
    return (clusters_.out() + static_cast<int64_t>(token_.size()) / clusters_.out()) * dim();
  }

  // Where the union has fewer than k tokens, the others are token 0 with -inf.
  void topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) const override;
  // -inf for a token outside the union.
  void log_prob(const LayerRows& rows, const int32_t* token, float* log_prob) const override;

 private:
  // Marks and collects the tokens of the clusters of `rows`, in the thread's scratch.
  TokenSet unite(const LayerRows& rows) const;
  // Calls visit(row, set, logits) for each row.
  template <typename Visit>
  void for_each_row(const LayerRows& rows, Visit visit) const;

  OutputMatrix matrix_;
  Float32Matrix clusters_;
  std::vector<int32_t> start_, token_;  // the sets, as in ScreenView
};

}  // namespace sharpbeam
