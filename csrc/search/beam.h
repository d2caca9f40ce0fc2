// The bookkeeping of a step of beam search in one call: which candidates live on and which end, the tree of tokens,
// what is finished of each request, and which requests are done. src/sharpbeam/search/beam.py is the same in Python,
// written for reading; tests/unit/search/test_native_beam.py holds the two together.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "search/selection.h"
#include "search/stopping.h"
#include "search/tree.h"

namespace sharpbeam {

// Rows before a step, and the handles of the states behind it; k candidates each, best first.
struct BeamRows {
  SelectionRows rows;
  const int32_t* state;   // [R]
  const int32_t* node;    // [R]
  const float* log_prob;  // [R, k] what the model says
};

// The rows of the next step, columns of one length.
struct GrownRows {
  std::vector<int32_t> request, state, token, node, length;
  std::vector<double> score;
};

// A request that is done: what its pool held, and how many steps it was ended early.
struct Done {
  int32_t request;
  int64_t saved_steps;
  std::vector<Finished> answers;
};

class Beam {
 public:
  Beam(SelectionRules rules, StopRule stop);

  void begin(const int32_t* request, int64_t count);

  // Forgets a request in flight, whose rows must not be given again. False where it is not in flight.
  bool cancel(int32_t request);

  // One step for all requests in `rows`; `grown` and `done` are the answer, `requests()` how many took it. False where
  // a log probability cannot be one: NaN, +infinity, or above 0 where the stop rule's proof needs sums that only fall.
  // Throws std::invalid_argument for a request that is not in flight or whose rows are apart, a length, and a node of
  // another request. Either way nothing has changed.
  bool advance(const BeamRows& rows);

  const GrownRows& grown() const { return grown_; }
  const std::vector<Done>& done() const { return done_; }
  int64_t requests() const { return static_cast<int64_t>(selection_.first.size()); }
  const TokenTree& tree() const { return tree_; }

  // Forgets all nodes if no request is in flight; the paths of what is done are to be read before.
  void tidy();

 private:
  bool numbers(const BeamRows& rows) const;
  void check(const BeamRows& rows);
  void select(const SelectionRows& rows);
  void drop(int64_t requests, const SelectionRows& rows);
  void finish(const BeamRows& rows);
  void settle(const BeamRows& rows);
  Pool& pool(int32_t request) { return pools_.find(request)->second; }

  SelectionRules rules_;
  StopRule stop_;
  TokenTree tree_;
  std::unordered_map<int32_t, Pool> pools_;  // of the requests in flight
  Selection selection_;
  std::vector<double> top_, held_;  // scratch: of the pools, where it matters what is finished
  std::vector<int32_t> start_;
  std::vector<uint8_t> closed_;  // scratch, [B]
  GrownRows grown_;
  int64_t step_ = 0;
  std::vector<Done> done_;
};

}  // namespace sharpbeam
