// Greedy search and beam search over many requests at once: by default with the rules of Hugging Face's `generate`.
// tests/reference/beam.py is the same for one request in plain Python, for reading.
//
// A row is a live hypothesis: a node of the tree of tokens, and the sum of its log probabilities. `Search::step`
// (search/search.cpp) feeds the last token of every row to the model, asks the output layer for the best next tokens of
// each, and calls `advance` here, which turns them into finished hypotheses and the rows of the next step. In beam.cpp
// `rank` is rule 1, `advance` for one request rules 2 to 4. Where log probabilities rest on estimated normalizers,
// closer or exact ones are computed first for all hypotheses whose order the stated errors leave undecided
// (close_calls.cpp).
//
// Each step, for each request (K = beam_size):
// 1. The 2K best continuations of all its rows are its candidates, ranked by the sum of log probabilities. Equal sums
//    stand in the order of their rows, then in the output layer's order (higher log probability, then lower id).
//    Of one row at most `max_children` are taken, and none below the thresholds.
// 2. A candidate that ends (with eos, or because it reaches max_length) is finished if it ranks among the first K, and
//    dropped otherwise. It scores log_prob / length ** length_penalty, where length counts eos. The K * patience
//    best finished ones are kept; the older one wins a tie.
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
#include <limits>
#include <span>
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
  void narrow(const RowView& rows, BeamView& beam) override;
  bool settles() const override { return settles_; }

  // The best candidates of a request that are allowed, best first, at most `most`; into ranked_.
  void rank(const RowView& rows, const RequestRows& request, int64_t most);

  std::vector<Ranked> ranked_;
  std::vector<char> whole_;  // [R] whether a row's request needs all of its candidates
  int64_t keep_;             // how many candidates of a request are ranked

 private:
  bool advance(const RowView& rows, const RequestRows& request);

  // Where scores rest on estimates (close_calls.cpp): closer or exact ones of hypotheses whose order is undecided.
  void settle_candidates(const RowView& rows);
  void mark_close(const RowView& rows, const RequestRows& request);
  size_t after_best(const RowView& rows, const RequestRows& request, bool ending) const;
  void mark_pairs(const RowView& rows, const RequestRows& request, double reach, bool ending);
  bool settle_pool(const RowView& rows, const RequestRows& request, int64_t places, bool ordered);
  bool settle_verdict(const RowView& rows, const RequestRows& request, int64_t before, int64_t length);
  void settle_answers(const RowView& rows, const RequestRows& request);
  void settle(const RowView& rows, std::span<const RequestRows> requests);
  double error_of(const Finished& finished) const;  // of its score
  void mark_score(const Finished& finished, double most, double each = std::numeric_limits<double>::infinity());

  double floor_below(double best) const;
  int64_t share(Pool& pool, double floor, int64_t possible);
  bool ends(const RowView& rows, const RequestRows& request, int64_t cell) const;
  Finished ending(const RowView& rows, int64_t cell, double score, int64_t length);
  void finish_rows(const RowView& rows, const RequestRows& request);

  StopRule stop_;
  bool settles_;
  std::vector<uint8_t> stays_;  // scratch of `share`
  Pool lower_, higher_;         // scratch of `settle_verdict`
};

}  // namespace sharpbeam
