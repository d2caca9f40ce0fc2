// The output layer over a lexical shortlist (SHARP section 3): exact logits of a set of tokens for each request, the
// likely translations of its source.
//
// A shortlist is a list of target tokens for each source token, and a list of tokens that are in every set. The set of
// a request is `always` and the lists of all tokens of its source, ascending. When the request enters a run, the rows
// of the output matrix for its set are packed into panels of their own; each step then is one small gemm for the rows
// of the request. Requests do not share sets, so an answer does not depend on the batch. Without a fallback test, log
// probabilities are normalized over the set, and tokens outside have probability zero. The lists are the likeliest
// translations by word alignment (src/sharpbeam/fit/shortlist.py).
//
// With a fallback test, log probabilities are normalized over all tokens. A small network (shortlist_outside.h) takes a
// row's hidden vector and its set's logits, and predicts the log of the mass outside, the sum of exp(logit), and its
// deviation. The set's answer stands if the least logit that the search can use (the k-th best, or the beam's floor) is
// `threshold` deviations above the prediction; the mass outside, if at most `most_share` of all, is added to the
// normalizer. Other rows take tokens, or their whole answer, from the preview or the scan (shortlist_fallback.h). The
// network is fitted to rows of which all logits were computed, and the threshold is the least one with which rows of
// held-out sentences reach the fidelity that was asked for, with 95% confidence (src/sharpbeam/fit/fallback_test.py).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/buffer.h"
#include "kernels/table.h"
#include "output/interface.h"
#include "output/output_matrix.h"
#include "output/token_set.h"

namespace sharpbeam {

// As it was fitted; the caller keeps the arrays during construction.
struct ShortlistView {
  const int32_t* always;  // tokens of every set: special and frequent ones; ascending, at least one
  int64_t always_count;
  const int32_t* start;  // [sources + 1]: the translations of source token s are token[start[s]] to
  const int32_t* token;  // token[start[s + 1] - 1], in any order, perhaps none
  int64_t sources;
};

class Shortlist {
 public:
  // Copies the view. Throws std::invalid_argument for ids outside 0 to vocab - 1, an `always` that is empty or does not
  // ascend, and a `start` that does not rise from 0.
  Shortlist(const ShortlistView& view, int64_t vocab);

  // The set of a request, ascending, into `tokens`. Throws std::invalid_argument for a source token that the shortlist
  // does not know.
  void find(const LayerRequest& request, std::vector<int32_t>& tokens) const;

 private:
  std::vector<int32_t> always_, start_, token_;
  int64_t vocab_;
};

class ShortlistLayer final : public OutputLayer {
 public:
  // Shares `weight` [vocab, dim] and `bias` [vocab], which must not change. Throws std::invalid_argument for a size
  // < 1.
  ShortlistLayer(Array weight, Array bias, int64_t vocab, int64_t dim, Shortlist shortlist, const Kernels& table);

  int64_t dim() const override { return dim_; }
  int64_t vocab() const override { return vocab_; }
  // A run that packs the output rows of a request's set when it enters: memory is allocated then, not while it is
  // decoded.
  std::unique_ptr<LayerRun> open() const override;

  const Kernels& table() const { return *table_; }
  const float* weight() const { return weight_.get(); }
  const float* bias() const { return bias_.get(); }
  const Shortlist& shortlist() const { return shortlist_; }

 private:
  class Run;
  Array weight_, bias_;
  int64_t vocab_, dim_;
  Shortlist shortlist_;
  const Kernels* table_;
};

// The sets of the requests in flight, with their output rows packed: what a run keeps. The layer has to outlive it.
class RequestSets {
 public:
  explicit RequestSets(const ShortlistLayer& layer) : layer_(layer) {}

  void enter(const LayerRequest& request);
  void leave(const int32_t* request, int64_t count);
  // Calls visit(row, set, logits) for each row, in turn; `logits` [set] are exact, and may be overwritten.
  template <typename Visit>
  void for_each_row(const LayerRows& rows, Visit visit) {
    const int64_t dim = layer_.dim();
    const int32_t* request = rows.request;
    for (int64_t first = 0; first < rows.rows;) {
      const Set& set = set_of(request[first]);
      int64_t count = 1;
      while (count < kRowsAtOnce && first + count < rows.rows && request[first + count] == request[first]) ++count;
      const int64_t stride = round_up(set.size(), kLanes);
      layer_.table().gemm(set.packed.get(), set.bias.get(), rows.hidden + first * dim, dim, logits_.get(), stride,
                          count, dim, set.size());
      for (int64_t r = 0; r < count; ++r) visit(first + r, TokenSet(set.tokens), logits_.get() + r * stride);
      first += count;
    }
  }

 private:
  struct Set {
    std::vector<int32_t> tokens;
    Buffer packed, bias;  // panels of kPanel tokens, as in Float32Matrix
    int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  };
  const Set& set_of(int32_t request) const;
  void pack(Set& set) const;

  const ShortlistLayer& layer_;
  std::unordered_map<int32_t, Set> sets_;
  std::vector<Set> spare_;  // of evicted requests: their memory is used again
  Buffer logits_;           // [kRowsAtOnce, tokens of the largest set]
};

}  // namespace sharpbeam
