// The clusters of a screen and their token sets: which cluster a row belongs to, and the logits of that cluster's set.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "output/blocks.h"
#include "output/output_matrix.h"
#include "output/screen_view.h"

namespace sharpbeam {

// A row on its way through a screen.
struct ScreenRow {
  int64_t index;  // among the rows of the call
  int32_t cluster;
  const float* hidden;
  float scale;    // of its int8 numbers, where the sets are int8
  float square;   // |hidden|^2, where it was asked for
  float* logits;  // of its set, then space for the residual components; int8 logits where the sets are int8

  // The standard deviation of an int8 logit's error is at most by_norm times the token's norm and by_lost times its
  // loss: that of a coordinate of the hidden vector is uniform over one scale.
  float by_norm() const { return scale / std::sqrt(12.0f); }
  float by_lost(int64_t dim) const { return std::sqrt(square / static_cast<float>(dim)); }
};

class ScreenSets {
 public:
  // Packs the output rows of each set side by side: a token that is in several sets is stored as often.
  ScreenSets(const OutputMatrix& matrix, const ScreenView& screen, bool int8);

  bool int8() const { return sets_.int8(); }
  int64_t clusters() const { return clusters_.size(0); }
  int64_t tokens() const { return static_cast<int64_t>(token_.size()); }  // of all sets
  int64_t size(int32_t cluster) const { return start_[cluster + 1] - start_[cluster]; }
  const int32_t* set(int32_t cluster) const { return token_.data() + start_[cluster]; }
  // With int8, of each token of a set: |w|, and |w - its int8 form|.
  const float* norm(int32_t cluster) const { return norm_.get() + start_[cluster]; }
  const float* lost(int32_t cluster) const { return lost_.get() + start_[cluster]; }
  // With int8, at least the standard deviation of the error of each logit of a row, which asked for its square.
  float most_deviation(const ScreenRow& row) const;

  // The cluster of each row of `hidden` [rows, dim], into `cluster` [rows].
  void assign(const Kernels& table, const float* hidden, int64_t rows, int32_t* cluster) const;

  // Calls visit(row) for each row, in the order of their clusters, with space for `more` logits after those of the set.
  template <typename Visit>
  void for_each_row(const Kernels& table, const float* hidden, int64_t rows, int64_t more, bool square,
                    Visit visit) const {
    Batch batch = prepare(table, hidden, rows, more);
    while (next(table, batch)) {
      for (int64_t r = 0; r < batch.count; ++r) visit(row(table, batch, r, square));
    }
  }

 private:
  // The rows of a call, cluster by cluster; all arrays are in the thread's scratch.
  struct Batch {
    const float* hidden;  // [rows, dim]
    int64_t rows, stride;
    HiddenRows all;
    const int32_t* cluster;  // [rows]
    const int64_t* order;    // [rows] row indices, cluster by cluster
    int64_t first, count;    // the part of `order` whose logits are there
  };
  HiddenRows quantize(const Kernels& table, const float* hidden, int64_t rows) const;
  void choose(const Kernels& table, const HiddenRows& hidden, int64_t rows, int32_t* cluster) const;
  Batch prepare(const Kernels& table, const float* hidden, int64_t rows, int64_t more) const;
  // Computes the logits of the next rows of one cluster; false where there are none left.
  bool next(const Kernels& table, Batch& batch) const;
  HiddenRows gather(const Batch& batch) const;
  ScreenRow row(const Kernels& table, const Batch& batch, int64_t r, bool square) const;

  int64_t dim_;
  Blocks clusters_, sets_;
  std::vector<int64_t> start_;  // [clusters + 1] into token_, norm_, lost_
  std::vector<int32_t> token_;  // ascending within a set
  Buffer norm_, lost_;
  std::vector<float> most_norm_, most_lost_;  // [clusters] the largest of each
};

}  // namespace sharpbeam
