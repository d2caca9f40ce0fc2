// The output layer over a lexical shortlist (SHARP section 3): exact logits of a set of tokens for each request, the
// likely translations of its source.
//
// A shortlist is a list of target tokens for each source token, and a list of tokens that are in every set. The set of
// a request is `always` and the lists of all tokens of its source, ascending. The rows of the output matrix for
// `always`, most of a set, are packed into panels once; those of the other tokens when the request enters a run. Each
// step then is two small gemms for the rows of the request, so an answer does not depend on the batch. Without a
// fallback test, log probabilities are normalized over the set, and tokens outside have probability zero. The lists are
// the likeliest translations by word alignment (src/sharpbeam/fit/shortlist.py).
//
// With a fallback test (shortlist_outside.h, shortlist_fallback.h), they are normalized over all tokens; the test's
// threshold is the least one with which rows of held-out sentences reach the fidelity that was asked for, with 95%
// confidence (src/sharpbeam/fit/fallback_test.py).
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
  const std::vector<int32_t>& always() const { return always_; }

 private:
  std::vector<int32_t> always_, start_, token_;
  int64_t vocab_;
};

// The output rows of some tokens, in panels as in Float32Matrix.
struct PackedTokens {
  std::vector<int32_t> tokens;
  Buffer packed, bias;

  void pack(const float* weight, const float* biases, int64_t dim);
  int64_t size() const { return std::ssize(tokens); }
  int64_t stride() const { return round_up(size(), kLanes); }  // of logits
};

class ShortlistLayer final : public OutputLayer {
 public:
  // Shares `weight` [vocab, dim] and `bias` [vocab], which must not change. Throws std::invalid_argument of a size < 1.
  ShortlistLayer(Array weight, Array bias, int64_t vocab, int64_t dim, Shortlist shortlist, const Kernels& table);

  int64_t dim() const override { return dim_; }
  int64_t vocab() const override { return vocab_; }
  // Allocates when a request enters, not while it is decoded.
  std::unique_ptr<LayerRun> open() const override;

  const Kernels& table() const { return *table_; }
  const float* weight() const { return weight_.get(); }
  const float* bias() const { return bias_.get(); }
  const Shortlist& shortlist() const { return shortlist_; }
  const PackedTokens& always() const { return always_; }

 private:
  class Run;
  Array weight_, bias_;
  int64_t vocab_, dim_;
  Shortlist shortlist_;
  PackedTokens always_;
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
    const PackedTokens& always = layer_.always();
    const int64_t dim = layer_.dim();
    const int32_t* request = rows.request;
    for (int64_t first = 0; first < rows.rows;) {
      const Set& set = set_of(request[first]);
      int64_t count = 1;
      while (count < kRowsAtOnce && first + count < rows.rows && request[first + count] == request[first]) ++count;
      const int64_t stride = always.stride() + set.others.stride();
      float* logits = apart_.get();
      for (const PackedTokens* part : {&always, &set.others}) {
        layer_.table().gemm(part->packed.get(), part->bias.get(), rows.hidden + first * dim, dim, logits, stride, count,
                            dim, part->size());
        logits += part->stride();
      }
      for (int64_t r = 0; r < count; ++r) {
        const float* apart = apart_.get() + r * stride;
        for (size_t i = 0; i < set.place.size(); ++i) logits_.get()[i] = apart[set.place[i]];
        visit(first + r, TokenSet(set.tokens), logits_.get());
      }
      first += count;
    }
  }

 private:
  struct Set {
    std::vector<int32_t> tokens;
    PackedTokens others;         // that are not of `always`
    std::vector<int32_t> place;  // of each token's logit, after those of `always` the others'
  };
  const Set& set_of(int32_t request) const;

  const ShortlistLayer& layer_;
  std::unordered_map<int32_t, Set> sets_;
  std::vector<Set> spare_;  // of evicted requests: their memory is used again
  Buffer apart_, logits_;   // [kRowsAtOnce, stride] and [tokens] of the largest set
};

}  // namespace sharpbeam
