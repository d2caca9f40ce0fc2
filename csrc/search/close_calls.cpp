// The decisions of a beam search whose scores rest on estimates: where two hypotheses are closer than the errors that
// are stated, closer normalizers of what only one of them went through decide, or else exact ones. So the answers are
// those of exact scores wherever the stated errors hold, and sums of them stay within the root of the sum of their
// squares.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>

#include "search/beam.h"

namespace sharpbeam {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr double kScoreError = 1e-3;  // of returned scores
constexpr double kTokenError = 1e-2;  // of each log probability in them

void sort_pool(Pool& pool) {
  std::stable_sort(pool.best.begin(), pool.best.end(),
                   [](const Finished& a, const Finished& b) { return a.score > b.score; });
}

}  // namespace

// Which candidates live on or are finished, of all requests: rows are settled together, since that is cheaper.
void BeamSearch::settle_candidates(const RowView& rows) {
  for (;;) {
    for (const RequestRows& request : requests_)
      if (request.last - request.first > 1) mark_close(rows, request);
    if (!open_.marked()) return;
    settle(rows, requests_);
  }
}

void BeamSearch::mark_close(const RowView& rows, const RequestRows& request) {
  double reach = 0.0;
  for (int64_t row = request.first; row < request.last; ++row) {
    reach = std::max(reach, std::numbers::sqrt2 * std::hypot(open_.spread()[row], open_.error(row)));
  }
  if (reach == 0.0) return;
  rank(rows, request, keep_);
  const size_t last = after_best(rows, request, false);
  // Others matter only where the last of these is within reach of what may live on.
  if (static_cast<int64_t>(ranked_.size()) == keep_ && ranked_[last - 1].score - ranked_.back().score <= reach) {
    rank(rows, request, std::numeric_limits<int64_t>::max());
  }
  mark_pairs(rows, request, reach, false);
  mark_pairs(rows, request, reach, true);
}

// The place in ranked_ after the K-th one, of all or only of those that do not end; after all where they are fewer.
size_t BeamSearch::after_best(const RowView& rows, const RequestRows& request, bool ending) const {
  size_t last = 0;
  for (int64_t count = 0; last < ranked_.size() && count < options_.beam_size; ++last) {
    count += ending || !ends(rows, request, ranked_[last].cell);
  }
  return last;
}

// Marks the rows of two candidates where it is open which one is better, and that matters: of those that do not end the
// first K live on, and of all those that are `ending` must be among the first K to be finished.
void BeamSearch::mark_pairs(const RowView& rows, const RequestRows& request, double reach, bool ending) {
  const auto counts = [&](const Ranked& one) { return ending || !ends(rows, request, one.cell); };
  const size_t last = after_best(rows, request, ending);
  for (size_t out = last; out < ranked_.size(); ++out) {
    if (!counts(ranked_[out])) continue;
    for (size_t in = last; in-- > 0 && ranked_[in].score - ranked_[out].score <= reach;) {
      if (!counts(ranked_[in])) continue;
      if (ending && !ends(rows, request, ranked_[in].cell) && !ends(rows, request, ranked_[out].cell)) continue;
      const int64_t a = ranked_[in].cell / candidates_.k, b = ranked_[out].cell / candidates_.k;
      const double apart = ranked_[in].score - ranked_[out].score;
      if (a != b && apart <= open_.between(rows, a, b)) open_.mark_between(rows, a, b, apart);
    }
  }
}

double BeamSearch::error_of(const Finished& finished) const {
  return stop_.score(open_.of(finished.node), tree_.length(finished.node));
}

// Marks so much of what a finished hypothesis rests on that its score is off by `most`, and no token's by more than
// `each`.
void BeamSearch::mark_score(const Finished& finished, double most, double each) {
  open_.mark(finished.node, most / stop_.score(1.0, tree_.length(finished.node)), each);
}

// Which `places` finished hypotheses are the best ones, and in which order where that is wanted; whether any changed.
bool BeamSearch::settle_pool(const RowView& rows, const RequestRows& request, int64_t places, bool ordered) {
  const std::vector<Finished>& best = request.request->pool.best;
  for (size_t a = 0; a < best.size() && static_cast<int64_t>(a) < places; ++a) {
    for (size_t b = ordered ? a + 1 : static_cast<size_t>(places); b < best.size(); ++b) {
      const double apart = best[a].score - best[b].score;
      if (apart > std::hypot(error_of(best[a]), error_of(best[b]))) continue;
      for (const Finished& each : {best[a], best[b]}) mark_score(each, apart / std::numbers::sqrt2);
    }
  }
  if (!open_.marked()) return false;
  settle(rows, {&request, 1});
  return true;
}

// Whether the request is done; whether any score changed.
bool BeamSearch::settle_verdict(const RowView& rows, const RequestRows& request, int64_t before, int64_t length) {
  const Pool& pool = request.request->pool;
  if (pool.best.empty() || grown_.size() == before) return false;
  double low = kNothing, high = kNothing;
  for (int64_t row = before; row < grown_.size(); ++row) {
    const double error = open_.of(grown_.node[row]);
    low = std::max(low, grown_.score[row] - error), high = std::max(high, grown_.score[row] + error);
  }
  lower_ = higher_ = pool;
  for (size_t i = 0; i < pool.best.size(); ++i) {
    const double error = error_of(pool.best[i]), sum = open_.of(pool.best[i].node);
    lower_.best[i].score -= error, lower_.best[i].log_prob -= sum;
    higher_.best[i].score += error, higher_.best[i].log_prob += sum;
  }
  sort_pool(lower_), sort_pool(higher_);
  const bool least = stop_.done(higher_, low, length, request.request->max_length);
  const bool most = stop_.done(lower_, high, length, request.request->max_length);
  if (least == most) return false;
  for (const Finished& each : pool.best) open_.mark(each.node, 0.0);
  for (int64_t row = before; row < grown_.size(); ++row) {
    if (grown_.score[row] + open_.of(grown_.node[row]) >= low) open_.mark(grown_.node[row], 0.0);
  }
  if (!open_.marked()) return false;
  settle(rows, {&request, 1});
  return true;
}

// Which hypotheses are the answers, in which order, and their scores where they are wanted.
void BeamSearch::settle_answers(const RowView& rows, const RequestRows& request) {
  while (settle_pool(rows, request, options_.num_hypotheses, true)) {
  }
  const Pool& pool = request.request->pool;
  const auto answers = std::min(pool.best.size(), static_cast<size_t>(options_.num_hypotheses));
  while (options_.return_scores) {
    for (size_t i = 0; i < answers; ++i) mark_score(pool.best[i], kScoreError, kTokenError);
    if (!open_.marked()) return;
    settle(rows, {&request, 1});
  }
}

// Closer or exact normalizers of all that is marked, into everything of `requests` that rests on it.
void BeamSearch::settle(const RowView& rows, std::span<const RequestRows> requests) {
  const int64_t k = static_cast<int64_t>(token_.size()) / rows.rows;
  work_.settled += open_.settle(*forward_);
  for (int64_t row = 0; row < rows.rows; ++row) {
    open_.correct(row, k, log_prob_.data() + row * k);
  }
  for (const RequestRows& request : requests) {
    Pool& pool = request.request->pool;
    bool changed = false;
    for (int64_t row = request.first; row < request.last; ++row) changed |= open_.correct(rows.node[row]);
    for (int64_t row = 0; row < grown_.size(); ++row) {
      if (grown_.request[row] == request.index) changed |= open_.correct(grown_.node[row]);
    }
    for (const Finished& each : pool.best) changed |= open_.correct(each.node);
    if (!changed) continue;
    for (int64_t row = request.first; row < request.last; ++row) {
      score_[static_cast<size_t>(row)] = tree_.sum(rows.node[row]);
    }
    for (int64_t row = 0; row < grown_.size(); ++row) {
      if (grown_.request[row] == request.index) grown_.score[row] = tree_.sum(grown_.node[row]);
    }
    for (Finished& each : pool.best) {
      each.log_prob = tree_.sum(each.node), each.score = stop_.score(each.log_prob, tree_.length(each.node));
    }
    sort_pool(pool);
  }
  open_.done();
  candidates_ = constraints_.apply(rows, k, token_.data(), log_prob_.data());
}

}  // namespace sharpbeam
