#include "search/stopping.h"

#include <algorithm>
#include <cmath>

namespace sharpbeam {

void Pool::add(const Finished& finished, int64_t most) {
  top = std::max(top, finished.log_prob);
  const auto better = [](const Finished& a, const Finished& b) { return a.score > b.score; };
  best.insert(std::upper_bound(best.begin(), best.end(), finished, better), finished);
  if (static_cast<int64_t>(best.size()) > most) best.resize(static_cast<size_t>(most));
}

StopRule::StopRule(const SearchOptions& options) : options_(options) {
  const EarlyStopping rule = options.early_stopping;
  const bool counts = rule != EarlyStopping::kProven && rule != EarlyStopping::kExhaustive;
  const double wanted = static_cast<double>(options.beam_size) * options.patience;
  need_ = counts ? std::max<int64_t>(1, std::llrint(wanted)) : options.beam_size;  // half to even, as Python's round
  most_ = options.finishing == Finishing::kStay ? options.beam_size : need_;
  const bool early = rule == EarlyStopping::kProven || std::isfinite(options.stop_margin);
  enough_ = early ? options.num_hypotheses : counts ? need_ : most_ + 1;
}

double StopRule::score(double log_prob, int64_t length) const {
  return log_prob / std::pow(static_cast<double>(std::max<int64_t>(length, 1)), options_.length_penalty);
}

bool StopRule::done(const Pool& pool, double best, int64_t length, int64_t max_length) const {
  if (best == -std::numeric_limits<double>::infinity()) return true;
  const auto finished = static_cast<int64_t>(pool.best.size());
  if (finished < enough_) return false;
  if (best < pool.top - options_.stop_margin) return true;
  const EarlyStopping rule = options_.early_stopping;
  if (rule == EarlyStopping::kExhaustive) return false;
  if (rule == EarlyStopping::kProven) return proven(pool, best, length, max_length);
  if (finished < need_) return false;
  if (rule == EarlyStopping::kTrue) return true;
  const bool longest = rule == EarlyStopping::kNever && options_.length_penalty > 0;
  const int64_t end = longest ? max_length : length;
  return score(best, end) <= pool.best.back().score;
}

bool StopRule::proven(const Pool& pool, double best, int64_t length, int64_t max_length) const {
  const auto answers = static_cast<size_t>(options_.num_hypotheses);
  if (options_.finishing == Finishing::kStay)
    for (size_t i = 0; i < answers; ++i)
      if (best > pool.best[i].log_prob) return false;
  // length ** penalty rises with the length, or falls: its largest value is at one end.
  const int64_t soonest = std::max(length, options_.min_length) + 1;
  return score(best, options_.length_penalty >= 0 ? max_length : soonest) <= pool.best[answers - 1].score;
}

}  // namespace sharpbeam
