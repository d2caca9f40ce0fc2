// A search: which hypotheses of each request live on. All searches share this part; each kind says how rows are chosen.
//
// src/sharpbeam/search/interface.py is the same interface in Python; any number of requests may be in flight.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "search/constraints.h"
#include "search/forward.h"
#include "search/in_flight.h"
#include "search/open_scores.h"
#include "search/options.h"
#include "search/rows.h"
#include "search/stopping.h"
#include "search/tree.h"

namespace sharpbeam {

// A request that is done: its answers, best first, and by how many steps it was ended early.
struct Done {
  int32_t request;
  int64_t saved_steps;
  std::vector<Finished> answers;
};

// Counts of a call of `step`: src/sharpbeam/search/work.py.
struct SearchWork {
  int64_t steps = 0, expansions = 0, request_steps = 0, model_rows = 0, sub_cubes = 0, settled = 0;

  void operator+=(const SearchWork& other) {
    steps += other.steps, expansions += other.expansions, request_steps += other.request_steps;
    model_rows += other.model_rows, sub_cubes += other.sub_cubes, settled += other.settled;
  }
};

// Scratch only grows: warm steps allocate the answers of requests that are done, and little else.
class Search {
 public:
  virtual ~Search() = default;

  void begin(const SearchRequest& request);

  // Forgets a request in flight, whose rows must not be given again. False where it is not in flight.
  bool cancel(int32_t request);

  bool busy() const { return !in_flight_.empty(); }  // whether a request is in flight

  // The finished hypotheses of a request so far, best first; none where it is not in flight.
  std::optional<std::vector<Finished>> finished(int32_t request) const;

  // One step for every request in `rows`: `rows()`, `done()` and `work()` are the result. If `whole`, these are all
  // rows of the run, so that its states can be freed here: then as many steps as it takes until a request is done, some
  // dozens of rows were run, or `interrupt` is called.
  // Throws BrokenModel for a log probability that cannot be one, and std::invalid_argument for a request that is not in
  // flight or whose rows are apart, a length that is not its node's, or a node of another request.
  void step(Forward& forward, const RowView& rows, bool whole);

  // Ends the call of `step` that runs, or the next one, after its current step. Any thread may call it.
  void interrupt() { interrupted_.store(true); }

  const RowColumns& rows() const { return grown_; }        // of the next step
  const std::vector<Done>& done() const { return done_; }  // their paths are in the tree until the next call of `step`
  const SearchWork& work() const { return work_; }
  const TokenTree& tree() const { return tree_; }
  int64_t places() const { return open_.places(); }  // rows that there is memory for to settle later

 protected:
  // `keep` candidates of each row are wanted.
  Search(const SearchOptions& options, int64_t keep) : options_(options), constraints_(options, keep) {}

  // Throws std::invalid_argument where a request has other rows than it can have.
  virtual void check_rows(const RequestRows&) const {}
  // A new request.
  virtual void enter(InFlight&, const SearchRequest&) {}
  // Runs rows and finds candidates for all of them, into states_ and candidates_.
  virtual void predict(Forward& forward, const RowView& rows);
  // Fills in `beam` where only candidates that it can use matter to this step.
  virtual void narrow(const RowView&, BeamView&) {}
  // Whether it asks for exact scores where a decision needs them. Others take exact ones of all rows where the output
  // layer's estimates are rough.
  virtual bool settles() const { return false; }
  // Chooses among candidates_ what lives on and what is finished.
  virtual void advance(const RowView& rows) = 0;

  // Nodes for all that a step may add; to be called once, before the first one.
  void reserve(int64_t nodes);
  // A node for the candidate at `cell`, a place in the flat [R, k].
  int32_t add_node(const RowView& rows, int64_t cell);
  // The candidate at `cell` as a row of the next step.
  void grow(const RowView& rows, int64_t cell, double score);
  // Ends a request with the answers in its pool.
  void close(const RequestRows& request, int64_t saved_steps);

  const SearchOptions options_;
  Constraints constraints_;
  TokenTree tree_;
  std::unordered_map<int32_t, InFlight> in_flight_;
  // Of a step:
  std::vector<RequestRows> requests_;  // [B]
  std::vector<int32_t> states_;        // [R] handles of the new states
  std::vector<int32_t> token_;         // [R, k] from the output layer
  std::vector<float> log_prob_;        // [R, k]
  std::vector<float> total_;           // [R] normalizers, where logits are penalized
  Candidates candidates_{};
  OpenScores open_{tree_};
  Forward* forward_ = nullptr;
  std::vector<double> score_;  // [R] of its rows, as far as they are settled
  RowColumns grown_;
  std::vector<Done> done_;
  SearchWork work_;

 private:
  void step_once(Forward& forward, const RowView& rows);
  void check(const RowView& rows);

  RowColumns given_;  // before the second step of a call, and those after it
  int64_t step_ = 0;
  std::atomic<bool> interrupted_{false};
};

}  // namespace sharpbeam
