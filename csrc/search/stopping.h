// When a request is done: src/sharpbeam/search/stopping.py, which says what the rules are and why one is proven.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace sharpbeam {

// A hypothesis that has ended.
struct Finished {
  double score, log_prob;
  int32_t node;  // its last one in the tree of tokens
};

// What is finished of one request.
struct Pool {
  std::vector<Finished> best;                             // best first
  double top = -std::numeric_limits<double>::infinity();  // the highest log probability of all that ever finished

  int64_t step = -1;  // the last one that the request took

  // Keeps `finished` if it is among the `room` best; the older one wins a tie.
  void add(const Finished& finished, int64_t room);
};

enum class Stop : int32_t { kTrue, kFalse, kNever, kProven, kExhaustive };

struct StopRule {
  Stop rule;
  int64_t answers;             // n
  int64_t need;                // N
  int64_t room;                // how many finished hypotheses of a request are kept
  int64_t enough;              // with fewer finished ones a request that has live rows is not done
  double margin;               // infinity = none
  bool stays;                  // finished hypotheses share the beam
  int64_t flatters;            // kNever: the length with which the best live row is judged, if it is shorter; else 0
  std::vector<double> weight;  // [max_length + 1] length ** penalty, that of length 1 for 0
  std::vector<double> widest;  // [max_length] by length now: the largest weight at which a row may still end

  double score(double log_prob, int64_t length) const { return log_prob / weight[static_cast<size_t>(length)]; }

  // Whether a request is done; `best` is the sum of its best live row, -infinity without any, `length` its tokens.
  bool done(const Pool& pool, double best, int64_t length) const;
};

}  // namespace sharpbeam
