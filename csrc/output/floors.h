// The least log probability of each row that a beam search can use, by candidates of its rows that a layer knows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "output/interface.h"

namespace sharpbeam {

// Calls raise(row, floor) for the `rows` from `first` on of each request that has enough candidates: no log probability
// of the row below the floor is among the request's best. known(row, take) calls take(token, log probability) for
// the known candidates of a row, the best ones first; open(row) is how far its score and they may be off together.
// `scores` is scratch.
template <typename Known, typename Open, typename Raise>
void for_each_floor(const LayerRows& given, int64_t first, int64_t rows, std::vector<double>& scores, Known known,
                    Open open, Raise raise) {
  const BeamView& beam = *given.beam;
  const int32_t* request = given.request + first;
  const double* score = beam.score + first;
  for (int64_t from = 0, to = 0; from < rows; from = to) {
    while (to < rows && request[to] == request[from]) ++to;
    if (beam.whole != nullptr && beam.whole[first + from] != 0) continue;
    scores.clear();
    for (int64_t r = from; r < to; ++r) {
      int64_t children = 0;  // any of them give a bar that is low enough
      known(r, [&](int32_t token, float log_prob) {
        if (children == beam.children || beam.ends(token)) return;
        ++children;
        scores.push_back(score[r] - open(r) + static_cast<double>(log_prob));
      });
    }
    if (static_cast<int64_t>(scores.size()) < beam.width) continue;
    std::nth_element(scores.begin(), scores.begin() + (beam.width - 1), scores.end(), std::greater<double>());
    const double bar = scores[static_cast<size_t>(beam.width - 1)];
    for (int64_t r = from; r < to; ++r) raise(r, bar - score[r] - open(r));
  }
}

}  // namespace sharpbeam
