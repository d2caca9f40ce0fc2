// Whole turns of beam search: model, output layer and bookkeeping, with nothing of Python in between.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "search/beam.h"
#include "search/forward.h"

namespace sharpbeam {

// Rows before a turn, columns [R] of src/sharpbeam/types.py.
struct LiveRows {
  int64_t rows;
  const int32_t *request, *state, *token, *node, *length;
  const double* score;
};

// What searches count: src/sharpbeam/search/work.py.
struct StepWork {
  int64_t steps, rows, requests;
};

// Scratch of one search; it only grows, so warm turns allocate nothing.
class NativeSteps {
 public:
  // One turn of `beam`, whose answer is there then, with k candidates of each row. If `whole`, these are all rows of
  // the run, so that its states can be freed here: then turn after turn, until a request is done or
  // some dozens of rows were run, for nobody can call a run off meanwhile. False where a log probability of the first
  // turn cannot be one; nothing has changed then, and `rows` can be run again. Throws std::invalid_argument as model,
  // layer and beam do.
  bool run(ModelRun& model, LayerRun& layer, int64_t k, bool whole, const LiveRows& rows, Beam& beam);

  const StepWork& work() const { return work_; }  // of the last call

 private:
  bool step(ModelRun& model, LayerRun& layer, int64_t k, const LiveRows& rows, Beam& beam);

  Buffer hidden_, log_prob_;            // [R, D], [R, k]
  std::vector<int32_t> state_, token_;  // [R], [R, k]
  GrownRows rows_;                      // before the second turn, and those after it
  StepWork work_{};
};

}  // namespace sharpbeam
