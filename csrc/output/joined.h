// A cluster screen and a lexical shortlist together: exact logits of the tokens that both allow, or that either does.
//
// Both guess what comes next, from other things: a screen from the hidden vector (L2S, CVP), a shortlist from the
// source (SHARP section 3). Where they share few tokens, the fewest are scored; united, one makes up for what the other
// lacks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/buffer.h"
#include "kernels/table.h"
#include "linear/float32_matrix.h"
#include "output/interface.h"
#include "output/screen_view.h"
#include "output/shortlist.h"
#include "output/token_set.h"

namespace sharpbeam {

enum class Join { both, either };

class JoinedLayer final : public OutputLayer {
 public:
  // Shares `weight` [vocab, dim] and `bias` [vocab], which must not change; of `screen`, the clusters and their sets
  // are copied, and the rest is not looked at. Throws std::invalid_argument for a size < 1, and as check_screen.
  JoinedLayer(Array weight, Array bias, int64_t vocab, int64_t dim, const ScreenView& screen, Shortlist shortlist,
              Join join, const Kernels& table);

  int64_t dim() const override { return dim_; }
  int64_t vocab() const override { return vocab_; }
  // A run that normalises over a row's tokens. Where a row's cluster and its request share none, and both are asked
  // for, the request's are taken. Memory is allocated when a request enters, and when a row of it is the first in a
  // cluster.
  std::unique_ptr<LayerRun> open() const override;

 private:
  class Run;
  Array weight_, bias_;
  int64_t vocab_, dim_, most_;  // most_: the tokens of the largest set of a cluster
  Float32Matrix clusters_;
  std::vector<int32_t> start_, token_;  // the sets, as in ScreenView
  Shortlist shortlist_;
  Join join_;
  const Kernels* table_;
};

}  // namespace sharpbeam
