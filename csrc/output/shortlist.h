// The output layer of one decoding run over a set of words for each request, as candidate lists from word alignment
// have them (SHARP section 3).
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/buffer.h"
#include "kernels/table.h"

namespace sharpbeam {

// For one thread at a time. A row's answer depends on that row and on the words of its request only. Memory is
// allocated while requests enter, not while they are decoded.
class ShortlistRun {
 public:
  // Shares `weight` [vocab, dim] and `bias` [vocab], which must not change. Throws std::invalid_argument for a size
  // < 1.
  ShortlistRun(Array weight, Array bias, int64_t vocab, int64_t dim, const Kernels& table);

  int64_t vocab() const { return vocab_; }
  int64_t dim() const { return dim_; }

  // Packs the output rows of `words` [count] for `request`. Throws std::invalid_argument for a request that is there
  // already, and for words that do not ascend from 0 to vocab - 1 or are none.
  void admit(int32_t request, const int32_t* words, int64_t count);
  // Forgets the requests; throws std::invalid_argument, before any is forgotten, where one is not there.
  void evict(const int32_t* request, int64_t count);

  // The k best words of each row's request, best first, equal log probabilities by lower id, into `log_prob` and
  // `token` [rows, k], normalised over the words of the request; logits have the bits of ExactLayer's. Where there
  // are fewer than k words the others are word 0 with -inf. Throws std::invalid_argument unless 1 <= k <= vocab, and
  // for a request that is not there.
  void topk(const float* hidden, const int32_t* request, int64_t rows, int64_t k, float* log_prob, int32_t* token);
  // The log probability of `token` [rows], one for each row: the same bits as from topk, -inf outside the set. Throws
  // std::invalid_argument unless each 0 <= token < vocab, and for a request that is not there.
  void log_prob(const float* hidden, const int32_t* request, const int32_t* token, int64_t rows, float* log_prob);

  // As topk and log_prob, but the words of row r are words[start[r]] to words[start[r + 1] - 1], whatever its request;
  // none are allowed. Throws std::invalid_argument where they do not ascend from 0 to vocab - 1.
  void topk_among(const float* hidden, const int32_t* words, const int32_t* start, int64_t rows, int64_t k,
                  float* log_prob, int32_t* token);
  void log_prob_among(const float* hidden, const int32_t* words, const int32_t* start, const int32_t* token,
                      int64_t rows, float* log_prob);

 private:
  struct Set {
    std::vector<int32_t> words;  // ascending
    Buffer packed, bias;         // panels of kPanel words, as in Float32Matrix
    int64_t size() const { return static_cast<int64_t>(words.size()); }
  };
  const Set& find(int32_t request) const;
  void check_words(const int32_t* words, int64_t count, const char* of) const;
  // The k best of one row, whose `count` logits belong to `words`.
  void rank_row(float* logits, const int32_t* words, int64_t count, int64_t k, float* log_prob, int32_t* token) const;
  // The log probability of one token of such a row.
  float find_token(const float* logits, const int32_t* words, int64_t count, int32_t token) const;
  void pack(Set& set) const;
  // Calls visit(row, set, logits) for each row.
  template <typename Visit>
  void for_each_row(const float* hidden, const int32_t* request, int64_t rows, Visit visit);
  // Calls visit(row, words, count, logits) for each row.
  template <typename Visit>
  void for_each_list(const float* hidden, const int32_t* words, const int32_t* start, int64_t rows, Visit visit);

  Array weight_, bias_;
  int64_t vocab_, dim_;
  const Kernels* table_;
  std::unordered_map<int32_t, Set> sets_;
  std::vector<Set> spare_;  // of evicted requests: their memory is used again
  Buffer logits_;           // [kRowsAtOnce, words of the largest set]
};

}  // namespace sharpbeam
