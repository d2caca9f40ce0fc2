// The output layer over a lexical shortlist (SHARP section 3): exact logits of a set of tokens for each request, the
// likely translations of its source.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "kernels/table.h"
#include "output/interface.h"

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

  // The set of a request, ascending, into `tokens`: for its source, and what is required of its answers. Throws
  // std::invalid_argument for a source token that the shortlist does not know, and a required one that there is not.
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

 private:
  class Run;
  Array weight_, bias_;
  int64_t vocab_, dim_;
  Shortlist shortlist_;
  const Kernels* table_;
};

}  // namespace sharpbeam
