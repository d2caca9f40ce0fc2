// When a request is done. The rules look at its finished hypotheses and at its best live row only. At the end of each
// step the search (search/beam.h) asks `done` about each request; where it holds, the finished hypotheses in the
// request's Pool, the `num_hypotheses` best of them, are the answer.
//
// In all rules a request without live rows is done. Else, with N = beam_size * patience and n = num_hypotheses:
//
// * "true": N are finished. With patience = 1 the rule of Hugging Face, with another one that of Kasai et al. (2022).
// * "false", "never": N are finished, and the best live row would not beat the worst of them if it ended with its
//   present length ("false": a guess, for a longer end may score better), or with max_length where the penalty is
//   positive ("never": sure, but it waits for answers that were not asked for). The rules of Hugging Face.
// * "exhaustive": never before max_length. Of all hypotheses that ever finish, the n best are the answer.
// * "proven": n are finished, and no live row can ever beat the worst of these n. Sums of log probabilities only fall
//   (search/constraints.h refuses a log probability above 0), so a row with the sum s scores at most s / w, where w is
//   the largest length ** length_penalty of all lengths at which it may still end (after min_length, up to max_length).
//   The older one wins a tie, so s / w may equal the worst. The rows of a search do not depend on when it stops, hence
//   the answer is the one of "exhaustive", token for token. If finished hypotheses stay on the beam, no live row may be
//   more likely than one of the n either, or it could push it off.
//
// `stop_margin` ends a request under any rule once n are finished and the best live row's sum of log probabilities is
// more than the margin below the highest of all finished ones (3.0 in "Sharp Models on Dull Hardware").
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "search/options.h"

namespace sharpbeam {

// A hypothesis that has ended.
struct Finished {
  double score, log_prob;
  int32_t node;  // its last one in the tree of tokens
};

// The finished hypotheses of one request.
struct Pool {
  std::vector<Finished> best;                             // best first
  double top = -std::numeric_limits<double>::infinity();  // the highest log probability of all that ever finished

  // Keeps `finished` if it is among the `most` best; the older one wins a tie.
  void add(const Finished& finished, int64_t most);
};

class StopRule {
 public:
  explicit StopRule(const SearchOptions& options);

  // How many finished hypotheses of a request are kept, the best ones.
  int64_t most() const { return most_; }

  // The rank of a finished hypothesis: log_prob / length ** length_penalty; an empty one counts as one token.
  double score(double log_prob, int64_t length) const;

  // Whether a request is done; `best` is the sum of its best live row, -infinity without any, `length` its tokens, of
  // which there may be `max_length`.
  bool done(const Pool& pool, double best, int64_t length, int64_t max_length) const;

 private:
  bool proven(const Pool& pool, double best, int64_t length, int64_t max_length) const;

  SearchOptions options_;
  int64_t need_;  // N
  int64_t most_;
  int64_t enough_;  // with fewer finished ones a request that has live rows is not done
};

}  // namespace sharpbeam
