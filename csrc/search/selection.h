// Which candidates live on and which end: one step of beam search for any number of requests.
//
// The rules are those of src/sharpbeam/search/beam.py; tests/reference/selection.py is the same written for reading.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace sharpbeam {

struct SelectionRules {
  int64_t beam;        // K
  int64_t keep;        // C: how many candidates of a request are ranked
  int64_t max_length;  // a row ends when it gets so long
  double margin;       // what is more than this below the best is dropped; infinity = none
  double ratio;        // what has more than so many times the best's negative log probability is dropped; 0 = none
  int32_t eos;
  bool stays;                                              // finished hypotheses share the beam
  int64_t min_length = 0;                                  // no row ends before it is so long
  int64_t children = std::numeric_limits<int64_t>::max();  // the most candidates of one row, of those that are allowed
};

// R rows, those of a request side by side, with k candidates each.
struct SelectionRows {
  int64_t rows, k;
  const int32_t* request;  // [R]
  const int32_t* length;   // [R]
  const double* score;     // [R]
  const int32_t* token;    // [R, k]
  const float* value;      // [R, k] what a candidate adds to the score of its row; -inf = not allowed
};

// What is finished of each of the B requests, in the order of their rows; null where it does not matter.
struct SelectionFinished {
  const double* top;       // [B] the highest log probability of all that ever finished
  const int32_t* start;    // [B + 1] the held ones of request b are log_prob[start[b] : start[b + 1]]
  const double* log_prob;  // [H]
};

// A candidate: its place in the flat [R, k], and its score.
struct Selected {
  int64_t cell;
  double score;
};

// The answer, and scratch; it only grows, so a warm step allocates nothing.
struct Selection {
  std::vector<int32_t> first;          // [B] the first row of each request
  std::vector<double> best;            // [B] the score of its best candidate that lives on, -inf without any
  std::vector<Selected> going, ended;  // by request, then by rank
  std::vector<uint8_t> kept;           // [H] the held ones that stay on the beam
  std::vector<Selected> ranked;        // scratch: the candidates of one request
};

// How many requests the rows belong to.
int64_t count_requests(const int32_t* request, int64_t rows);

void select(const SelectionRows& rows, const SelectionFinished& finished, const SelectionRules& rules, Selection& out);

}  // namespace sharpbeam
