// The output matrix row by row: exact logits of a few tokens, with the bits of the exact layer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/buffer.h"
#include "core/file_pages.h"
#include "kernels/table.h"

namespace sharpbeam {

constexpr int64_t kRowsAtOnce = 64, kLeastAtOnce = 6;  // hidden vectors of a block; no answer depends on it
constexpr int64_t kBlockFloats = int64_t{1} << 22;

constexpr float kNever = -std::numeric_limits<float>::infinity();  // the log probability of what is left out

// Throw std::invalid_argument: of a size < 1, unless 1 <= k <= vocab, and unless each 0 <= token < vocab.
void check_sizes(int64_t vocab, int64_t dim);
void check_k(int64_t k, int64_t vocab);
void check_tokens(const int32_t* token, int64_t rows, int64_t vocab);

class OutputMatrix {
 public:
  // Shares `weight` [vocab, dim], which must not be written to, and copies `bias` [vocab]. Throws
  // std::invalid_argument if a size is < 1, or a bias is not finite or larger than 1e12: no bound holds there.
  OutputMatrix(Array weight, const float* bias, int64_t vocab, int64_t dim, const Kernels& table);

  // Calls visit(token) for each token in turn. Throws std::invalid_argument where one of its weights is not finite or
  // larger than 1e12: a layer that relies on bounds reads all rows first.
  template <typename Visit>
  void read(Visit visit) const {
    SequentialRead read(weight_.get());
    for (int64_t token = 0; token < vocab_; ++token) {
      check_row(token);
      visit(token);
      read.advance_to(row(token) + dim_);
    }
  }

  int64_t vocab() const { return vocab_; }
  int64_t dim() const { return dim_; }
  const Kernels& table() const { return *table_; }
  const float* row(int64_t token) const { return weight_.get() + token * dim_; }
  const float* bias() const { return bias_.get(); }

  // The Euclidean norm of a row.
  double norm(const float* row) const;
  // Logits of `tokens` [count] for one hidden vector [dim]: the bits of ExactLayer's.
  void logits(const float* hidden, const int32_t* tokens, int64_t count, float* out) const;
  // The same of all tokens; `out` is [vocab].
  void all_logits(const float* hidden, float* out) const;
  // The logit of one token for each hidden vector [rows, dim]; `token` and `out` are [rows].
  void logit_of_each(const float* hidden, const int32_t* token, int64_t rows, float* out) const;

  // Log-sum-exp of the exact logits, which are written to `logits` [vocab].
  float log_total(const float* hidden, float* logits) const;
  // The same of each hidden vector [rows, dim], into `total` [rows]; weights are read once for many of them.
  void log_totals(const float* hidden, int64_t rows, float* total) const;
  // The answer of ExactLayer for one hidden vector, with or without a normalizer; returns log_total, or 0 without.
  float rank_all(const float* hidden, bool normalize, int64_t k, float* logits, float* log_prob, int32_t* token) const;

 private:
  void check_row(int64_t token) const;
  // The logits of `tokens` of each hidden vector [rows, dim], `stride` apart.
  void logits_of_rows(const float* hidden, int64_t rows, const int32_t* tokens, int64_t count, float* out,
                      int64_t stride) const;
  void logits_from_file(const float* hidden, int64_t rows, const int32_t* tokens, int64_t count, float* out,
                        int64_t stride) const;

  Array weight_;
  FileRows file_;  // of a large matrix
  Buffer bias_;
  int64_t vocab_, dim_;
  const Kernels* table_;
};

// Calls visit(first, count) for blocks of rows that are computed together: many, so that the weights are streamed
// seldom, but few enough for `floats` numbers of each row to stay in the cache. No answer depends on it. Rows of one
// `request` [rows] stay together where they fit.
template <typename Visit>
void for_each_block(int64_t rows, int64_t floats, Visit visit, const int32_t* request = nullptr) {
  const int64_t most = std::clamp(kBlockFloats / floats, kLeastAtOnce, kRowsAtOnce);
  for (int64_t first = 0, last; first < rows; first = last) {
    const int64_t blocks = (rows - first + most - 1) / most;  // balanced: 160 rows are 54 + 53 + 53
    last = first + (rows - first + blocks - 1) / blocks;
    const auto divides = [&](int64_t row) {
      return request != nullptr && row < rows && request[row] == request[row - 1];
    };
    int64_t edge = last;
    while (divides(edge) && edge - first < most) ++edge;
    while (divides(edge) && edge > first + 1) --edge;
    if (!divides(edge)) last = edge;
    visit(first, last - first);
  }
}

// The k best of `logits` [count], which belong to `tokens` (ascending; null: all tokens): their log probabilities
// logit - total, largest first, equal ones by lower id. `logits` is overwritten.
void rank_log_probs(const Kernels& table, float* logits, const int32_t* tokens, int64_t count, float total, int64_t k,
                    float* log_prob, int32_t* token);

// The k best of `logits` [n] as they are, without a normalizer; NaN first where all are NaN, which is a broken model's.
void rank_logits(const Kernels& table, const float* logits, int64_t n, int64_t k, float* log_prob, int32_t* token);

// A float that is at least x.
float above(double x);

// A little below `logit` - shift, where `logit` is the k-th largest: tokens below the result have a smaller
// logit - total than it has, also after rounding, and 2^-20 of its size is left for the rounding of the comparison.
float bar_below(float logit, float total, double shift);

}  // namespace sharpbeam
