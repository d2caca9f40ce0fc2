// The screened output layer: a cluster for each row, and the exact logits of that cluster's words (L2S section 3).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/matrix.h"
#include "kernels/table.h"

namespace quickbeam {

// What picks the candidates, as arrays that the caller keeps during construction.
struct ScreenView {
  const float* weight;   // [clusters, dim]
  const float* bias;     // [clusters]
  const int32_t* start;  // [clusters + 1]: the words of cluster t are token[start[t]] to token[start[t + 1] - 1]
  const int32_t* token;  // [start[clusters]], ascending within a cluster
  int64_t clusters;
  // A row is doubtful where its k-th best logit - slope * |hidden - center| < offset, or there is none; no row is where
  // doubt_k is 0.
  const float* center;  // [clusters, dim], or null where doubt_k is 0
  int64_t doubt_k;
  float slope, offset;
};

// Any number of threads may use one projection at a time: each has its own scratch. A row's answer depends on that row
// alone, unless the union of a batch is asked for.
class ScreenedProjection {
 public:
  // The output rows of each cluster's words are packed side by side, so a word that is in many clusters is stored as
  // often: see `floats`. Throws std::invalid_argument for a size < 1, an empty cluster, or ids that do not ascend
  // from 0 to vocab - 1.
  ScreenedProjection(const float* weight, const float* bias, int64_t vocab, int64_t dim, const ScreenView& screen,
                     const Kernels& table);

  int64_t vocab() const { return vocab_; }
  int64_t dim() const { return clusters_.in(); }
  // Size of the packed words, in floats.
  int64_t floats() const { return panel_[panel_.size() - 1] * kPanel * dim(); }

  // The cluster of each row of `hidden` [rows, dim], into `cluster` [rows].
  void assign(const float* hidden, int64_t rows, int32_t* cluster) const;

  // The k best words of each row's cluster, best first, equal log probabilities by lower id; into `log_prob` and
  // `token` [rows, k], normalised over the words of the cluster; and whether the row is doubtful, into `doubtful`
  // [rows]. Where the cluster has fewer than k words the others are word 0 with -inf. Throws std::invalid_argument
  // unless 1 <= k <= vocab.
  void topk(const float* hidden, int64_t rows, int64_t k, float* log_prob, int32_t* token, bool* doubtful) const;

  // The log probability of `token` [rows], one for each row, into `log_prob` [rows]: the same bits as from topk; -inf
  // outside the row's cluster; and `doubtful` [rows]. Throws std::invalid_argument unless each 0 <= token < vocab.
  void log_prob(const float* hidden, const int32_t* token, int64_t rows, float* log_prob, bool* doubtful) const;

  // As topk, but every row is scored on the words of the clusters of all rows (CVP section 2.3): its answer depends on
  // its neighbours, and no row is doubtful.
  void topk_union(const float* hidden, int64_t rows, int64_t k, float* log_prob, int32_t* token) const;

 private:
  int64_t size(int32_t cluster) const { return start_[cluster + 1] - start_[cluster]; }
  const int32_t* words(int32_t cluster) const { return token_.data() + start_[cluster]; }
  // Where element 0 of the row of a cluster's i-th word is packed; the next ones follow kPanel floats apart.
  int64_t place(int32_t cluster, int64_t i) const {
    return (panel_[cluster] + i / kPanel) * kPanel * dim() + i % kPanel;
  }
  void check_k(int64_t k) const;

  // Calls visit(row, cluster, logits of its words) for each row, cluster by cluster.
  template <typename Visit>
  void for_each_row(const float* hidden, int64_t rows, Visit visit) const;
  // Normalises logits in place and ranks them: the k best into `log_prob` and `token`, padded; false where the row is
  // doubtful. `names` are the words of the logits.
  bool rank(float* logits, int64_t count, const int32_t* names, int64_t k, float* log_prob, int32_t* token,
            const float* hidden, int32_t cluster) const;

  Matrix clusters_;
  Buffer center_;                 // [clusters, dim] where rows can be doubtful
  std::vector<int64_t> start_;    // [clusters + 1] into token_
  std::vector<int32_t> token_;    // ids of the words, ascending within a cluster
  std::vector<int64_t> panel_;    // [clusters + 1] first panel of each cluster
  Buffer packed_, packed_bias_;   // panels of kPanel words as in Matrix; the biases, padded to whole panels
  int64_t vocab_ = 0, most_ = 0;  // most_: words of the largest cluster
  int64_t doubt_k_ = 0;
  float slope_ = 0.0f, offset_ = 0.0f;
  const Kernels* table_;
};

}  // namespace quickbeam
