// The record of a step, for people who ask why a search chose what it chose: src/sharpbeam/search/observer.py.
#pragma once

#include <cstdint>
#include <vector>

#include "search/stopping.h"

namespace sharpbeam {

// The outcome of a candidate: a row of the next step; a finished hypothesis; no place on the beam; below the threshold
// of a beam of variable width; not allowed at all.
enum class Outcome : int32_t { kLives, kFinished, kWidth, kThreshold, kBanned };

// One of the best candidates of a request in a step.
struct Choice {
  int64_t row;  // which of the request's rows it continues
  int32_t token;
  float log_prob;  // what the model says of the token
  double score;    // sum of the hypothesis that it makes
  Outcome outcome;
};

struct RequestTrace {
  int32_t request;
  std::vector<Choice> choices;  // best first
  std::vector<int64_t> groups;  // cube pruning: a number for each row; those of one group share their candidates
  Why why = Why::kNotDone;
};

}  // namespace sharpbeam
