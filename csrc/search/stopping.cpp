#include "search/stopping.h"

#include <algorithm>

namespace sharpbeam {

void Pool::add(const Finished& finished, int64_t room) {
  top = std::max(top, finished.log_prob);
  const auto better = [](const Finished& a, const Finished& b) { return a.score > b.score; };
  best.insert(std::upper_bound(best.begin(), best.end(), finished, better), finished);
  if (static_cast<int64_t>(best.size()) > room) best.resize(static_cast<size_t>(room));
}

bool StopRule::done(const Pool& pool, double best, int64_t length) const {
  if (best == -std::numeric_limits<double>::infinity()) return true;
  const auto finished = static_cast<int64_t>(pool.best.size());
  if (finished < enough) return false;
  if (best < pool.top - margin) return true;
  if (rule == Stop::kExhaustive) return false;
  if (rule == Stop::kProven) {
    bool safe = true;
    for (int64_t i = 0; stays && i < std::min(answers, finished); ++i) safe = safe && best <= pool.best[i].log_prob;
    const Finished& last = pool.best[static_cast<size_t>(std::min(answers, finished) - 1)];
    return safe && best / widest[static_cast<size_t>(length)] <= last.score;
  }
  if (finished < need) return false;
  return rule == Stop::kTrue || score(best, std::max(length, flatters)) <= pool.best.back().score;
}

}  // namespace sharpbeam
