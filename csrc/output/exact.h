// The exact output layer: logits of all tokens, log-sum-exp and top k in one call.
#pragma once

#include <cstdint>
#include <mutex>

#include "core/buffer.h"
#include "kernels/table.h"
#include "linear/float32_matrix.h"
#include "output/interface.h"

namespace sharpbeam {

class ExactLayer final : public NormalizingLayer {
 public:
  // Packs `weight` [vocab, dim] with `bias` [vocab]; `deferred`: when it is first used, and shares the arrays, which
  // must not change. Throws std::invalid_argument if a size is < 1.
  ExactLayer(Array weight, Array bias, int64_t vocab, int64_t dim, const Kernels& table, bool deferred);

  int64_t vocab() const override { return vocab_; }
  int64_t dim() const override { return dim_; }

  void rank(const LayerRows& rows, int64_t k, bool normalize, float* log_prob, int32_t* token) const override;
  void score(const LayerRows& rows, const int32_t* token, bool normalize, float* log_prob) const override;

 private:
  const Float32Matrix& matrix() const;
  // Calls visit(row, logits) for each row, in blocks of rows that fit the cache; the rows of a block in any thread.
  template <typename Visit>
  void for_each_row(const float* hidden, int64_t rows, Visit visit) const;

  Array weight_, bias_;  // null once they are packed, unless that was deferred
  int64_t vocab_, dim_;
  const Kernels* table_;
  mutable std::once_flag packed_;
  mutable Float32Matrix matrix_;
};

}  // namespace sharpbeam
