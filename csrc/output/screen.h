// The screened output layer: a cluster for each row, and the exact logits of that cluster's best words (L2S section 3).
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "kernels/table.h"
#include "output/blocks.h"
#include "output/screen_view.h"
#include "output/words.h"

namespace sharpbeam {

// Any number of threads may use one output layer at a time: each has its own scratch. A row's answer depends on that
// row alone, unless the union of a batch is asked for.
//
// With bytes, clusters are chosen by rounded products, and so are the words that may be among the best: these take
// exact logits. Rounding is taken as random: its standard deviation follows from the sizes, and a word is left out
// where it would have to be wrong by kSure of them. So the k best of a set are the exact ones but for very rare cases,
// which the measured fidelity of a screen includes.
class ScreenLayer {
 public:
  // The output rows of each cluster's words are packed side by side, so a word that is in many clusters is stored as
  // often: see `packed_bytes`. Throws std::invalid_argument for a size < 1, an empty cluster, or ids that do not ascend
  // from 0 to vocab - 1.
  ScreenLayer(Array weight, const float* bias, int64_t vocab, int64_t dim, const ScreenView& screen, bool bytes,
              const Kernels& table);

  int64_t vocab() const { return words_.vocab(); }
  int64_t dim() const { return words_.dim(); }
  int64_t packed_bytes() const { return sets_.packed_bytes(); }

  // The cluster of each row of `hidden` [rows, dim], into `cluster` [rows].
  void assign(const float* hidden, int64_t rows, int32_t* cluster) const;

  // The k best words of each row's cluster, best first, equal log probabilities by lower id; into `log_prob` and
  // `token` [rows, k]. Where the cluster has fewer than k words the others are word 0 with -inf. The numbers of the
  // doubtful rows go into `doubtful` [rows], ascending; how many there are is given back, and counted. Throws
  // std::invalid_argument unless 1 <= k <= vocab.
  int64_t topk(const float* hidden, int64_t rows, int64_t k, float* log_prob, int32_t* token, int32_t* doubtful) const;

  // The log probability of `token` [rows], one for each row, into `log_prob` [rows]: the same bits as from topk.
  // Outside the row's set it is -inf without a tail; with one, that of the exact logit. `doubtful` as above. Throws
  // std::invalid_argument unless each 0 <= token < vocab.
  int64_t log_prob(const float* hidden, const int32_t* token, int64_t rows, float* log_prob, int32_t* doubtful) const;

  // What the test of doubt sees, into `signs` [rows, kSigns]: the best logit, the doubt_k-th best (-inf where there is
  // none), the tail, the distance to the center, and the log normaliser. Throws std::invalid_argument without a test.
  void signs(const float* hidden, int64_t rows, float* signs) const;
  static constexpr int64_t kSigns = 5;

  // As topk in floats, but every row is scored on the words of the clusters of all rows (CVP section 2.3), and
  // normalised over them: its answer depends on its neighbours, and no row is doubtful.
  void topk_union(const float* hidden, int64_t rows, int64_t k, float* log_prob, int32_t* token) const;

  // Rows so far, and those that were doubtful.
  int64_t rows_seen() const { return seen_.load(std::memory_order_relaxed); }
  int64_t rows_doubtful() const { return doubtful_.load(std::memory_order_relaxed); }

  static constexpr int64_t kRefined = 8;  // best words whose exact logits go into the normaliser
  static constexpr float kSure = 5.0f;

 private:
  struct Row;
  struct Best {  // of a row's logits, largest first; in the thread's scratch
    float* logit;
    int32_t* place;
    int64_t count;
  };
  int64_t size(int32_t cluster) const { return start_[cluster + 1] - start_[cluster]; }
  const int32_t* words(int32_t cluster) const { return token_.data() + start_[cluster]; }
  HiddenRows rounded(const float* hidden, int64_t rows) const;
  void choose(const HiddenRows& hidden, int64_t rows, int32_t* cluster) const;
  // Calls visit(row) for each row, in order of their clusters.
  template <typename Visit>
  void for_each_row(const float* hidden, int64_t rows, Visit visit) const;
  // The log of what the words outside weigh; the logits of its pieces stand behind those of the row's words.
  float tail_of(const Row& row) const;
  float distance(const Row& row) const;
  // The test of the words, and that of the normaliser.
  bool doubts_words(const Row& row, const Best& top, float tail) const;
  bool doubts_total(float tail, float total) const { return !(tail - total <= loosest_); }
  // All that the test and a ranking of the k best look at.
  Best best(const Row& row, int64_t k) const;
  float total_of(const Row& row) const;
  // The k best into `log_prob` and `token`; gives back the log normaliser. The row's logits are overwritten.
  float rank(const Row& row, const Best& top, int64_t k, float* log_prob, int32_t* token) const;
  float rank_floats(const Row& row, int64_t k, float* log_prob, int32_t* token) const;
  float rank_bytes(const Row& row, const Best& top, int64_t k, float* log_prob, int32_t* token) const;
  int64_t reaching(const Row& row, const Best& seeds, int64_t k, int32_t* found) const;
  int64_t gather(const std::vector<char>& doubtful, int64_t rows, int32_t* numbers) const;

  Words words_;
  Blocks clusters_, sets_;
  std::vector<int64_t> start_;     // [clusters + 1] into token_, spread_
  std::vector<int32_t> token_;     // ids of the words, ascending within a cluster
  Buffer norm_, lost_;             // of each of them, with bytes: |w|, and |w - rounded w|
  Buffer tail_, tail_bias_;        // [clusters, pieces, dim], [clusters, pieces]
  Buffer center_, center_square_;  // [clusters, dim] where rows can be doubtful, and |center|^2 [clusters]
  int64_t pieces_ = 0;             // of a cluster's tail; 0 where there is none
  int64_t doubt_k_ = 0;
  float margin_ = 0.0f, by_tail_ = 0.0f, by_far_ = 0.0f, offset_ = 0.0f, loosest_ = 0.0f;
  mutable std::atomic<int64_t> seen_{0}, doubtful_{0};
};

}  // namespace sharpbeam
