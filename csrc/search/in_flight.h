// The requests of a run that are being decoded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "search/philox.h"
#include "search/stopping.h"

namespace sharpbeam {

// A request that enters. Its target prefix may be empty.
struct SearchRequest {
  int32_t index;
  std::span<const int32_t> prefix;           // tokens that every hypothesis begins with, without eos
  std::span<const float> prefix_log_prob{};  // what each adds to the score of a hypothesis; NaN: what the model says
  uint64_t name = 0;                         // a hash of source and prefix, for the random numbers of its samples
  // Tokens of its hypotheses, where that is below the option, but never less than prefix and eos take; 0: the option.
  int64_t max_length = 0;
};

// An answer that is being drawn.
struct Sample {
  int32_t number;
  Philox random;
};

// The state of a request in a search.
struct InFlight {
  std::vector<int32_t> prefix;
  std::vector<float> prefix_log_prob;
  Pool pool;
  std::vector<Sample> samples;  // sampling: in the order of the request's rows
  std::vector<int32_t> open;    // places in OpenScores that it has
  size_t most_open = 0;         // as many are looked through for dead ones
  int64_t step = -1;            // the last one that it took
  int64_t max_length = 0;       // of its hypotheses
};

// The rows of one request in a step: those from `first` to `last`.
struct RequestRows {
  int64_t first, last;
  int32_t index;
  InFlight* request;
};

}  // namespace sharpbeam
