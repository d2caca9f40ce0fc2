// Greedy search and beam search over many requests at once: by default with the rules of Hugging Face's `generate`.
// tests/reference/beam.py is the same for one request in plain Python, for reading.
//
// Each step, for each request (K = beam_size):
// 1. The 2K best continuations of all its rows are its candidates, ranked by the sum of log probabilities. Equal sums
//    stand in the order of their rows, then in the output layer's order (higher log probability, then lower id).
//    Of one row at most `max_children` are taken, and none below the thresholds.
// 2. A candidate that ends (with eos, or because it reaches max_length) is finished if it ranks among the first K, and
//    dropped otherwise. It scores log_prob / length ** length_penalty, where length counts eos. The K best finished
//    ones are kept; the older one wins a tie.
// 3. The K best candidates that do not end are the rows of the next step.
// 4. `early_stopping` says when the request is done (search/stopping.h). Without live rows (as at max_length) it is
//    done in any case.
// With K = 1 this is greedy search: the first eos ends it, whatever `early_stopping` says, as in Hugging Face.
//
// Thresholds make the beam narrower (Freitag & Al-Onaizan 2017; STREAM section 4). They look at sums of log
// probabilities; the best of a request may be a finished one, also of an earlier step. max_score_margin m drops what is
// below best - m; for a ratio r of probabilities take m = -ln r. max_score_ratio r drops what is below best * r, so it
// is wider for long hypotheses than for short ones.
//
// With finishing = "stay" (STREAM appendix A.1) steps 2 and 3 are: finished hypotheses and candidates together are
// ranked by the sum of log probabilities, finished ones first on ties, and the K best stay on the beam. So the beam
// gets narrower with each one that finishes, and a finished one is lost when K better ones are found.
#pragma once

#include <cstdint>
#include <vector>

#include "search/search.h"

namespace sharpbeam {

class BeamSearch : public Search {
 public:
  explicit BeamSearch(const SearchOptions& options);

 protected:
  // A candidate: its place in the flat [R, k], and its score.
  struct Ranked {
    int64_t cell;
    double score;
  };

  void enter(InFlight& entry, const SearchRequest& request) override;
  void advance(const RowView& rows) final;
  bool narrows(const RowView& rows, BeamView& beam) const override;

  // The best candidates of a request that are allowed, best first, at most 2K; into ranked_.
  void rank(const RowView& rows, const RequestRows& request);

  // The record of a step of a request, without its choices.
  virtual RequestTrace trace_of(const RequestRows& request) const { return {request.index, {}, {}}; }

  std::vector<Ranked> ranked_;

 private:
  Why advance(const RowView& rows, const RequestRows& request);
  double floor_below(double best) const;
  int64_t share(Pool& pool, double floor, int64_t possible);
  bool ends(const RowView& rows, int64_t cell) const;
  void finish(const RowView& rows, const RequestRows& request, int64_t cell, double score);
  void finish_rows(const RowView& rows, const RequestRows& request);
  void record(const RequestRows& request, int64_t cell, double score, Outcome outcome);
  void record_banned(const RowView& rows, const RequestRows& request);

  StopRule stop_;
  int64_t keep_;                // how many candidates of a request are ranked
  std::vector<uint8_t> stays_;  // scratch of `share`
};

}  // namespace sharpbeam
