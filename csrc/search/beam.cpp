#include "search/beam.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sharpbeam {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// Of 2K at most K are eos, so K can live on. Greedy search has no use for the second best: eos ends it.
int64_t most_ranked(const SearchOptions& options) { return options.beam_size == 1 ? 1 : 2 * options.beam_size; }

}  // namespace

BeamSearch::BeamSearch(const SearchOptions& options)
    : Search(options, std::min(most_ranked(options), options.max_children)),
      keep_(most_ranked(options)),
      stop_(options),
      settles_(options.cube_pruning == CubePruning::kNone && options.finishing == Finishing::kLeave &&
               options.repetition_penalty <= 1.0 && options.prefix_bias_beta <= 0.0 &&
               !std::isfinite(options.stop_margin) && !std::isfinite(options.max_score_margin) &&
               !std::isfinite(options.max_score_ratio)) {}

void BeamSearch::enter(InFlight& entry, const SearchRequest&) {
  entry.pool.best.reserve(static_cast<size_t>(std::min<int64_t>(stop_.most(), 64)) + 1);
}

// Where every candidate may be chosen by its log probability alone, the K best that do not end leave nothing to others.
void BeamSearch::narrow(const RowView& rows, BeamView& beam) {
  if (options_.repetition_penalty > 1.0 || options_.no_repeat_ngram_size > 0) return;
  // The eos of a row takes one of the places of its continuations.
  beam = {rows.score, options_.beam_size, options_.max_children - 1, options_.eos, {}};
  whole_.clear();
  bool some = false;
  for (const RequestRows& request : requests_) {
    const bool whole = !request.request->prefix.empty();
    whole_.insert(whole_.end(), static_cast<size_t>(request.last - request.first), static_cast<char>(whole));
    some = some || whole;
  }
  if (some) beam.whole = whole_.data();
}

void BeamSearch::advance(const RowView& rows) {
  if (open_.some()) settle_candidates(rows);
  reserve(std::min(keep_ * static_cast<int64_t>(requests_.size()), rows.rows * candidates_.k));
  for (const RequestRows& request : requests_) {
    const int64_t before = grown_.size();
    if (!advance(rows, request)) continue;
    const int64_t length = rows.length[request.first] + 1;
    const bool early = grown_.size() > before;
    grown_.resize(before);
    Pool& pool = request.request->pool;
    if (pool.best.empty()) finish_rows(rows, request);
    if (open_.some()) settle_answers(rows, request);
    if (static_cast<int64_t>(pool.best.size()) > options_.num_hypotheses)
      pool.best.resize(static_cast<size_t>(options_.num_hypotheses));
    close(request, early ? request.request->max_length - length : 0);
  }
}

// One step of a request: its rows of the next step; returns whether it is done, and has none.
bool BeamSearch::advance(const RowView& rows, const RequestRows& request) {
  Pool& pool = request.request->pool;
  rank(rows, request, keep_);
  const auto ranked = static_cast<int64_t>(ranked_.size());
  const double floor = floor_below(std::max(pool.top, ranked ? ranked_[0].score : kNothing));
  int64_t possible = 0;
  while (possible < ranked && ranked_[possible].score >= floor) ++possible;
  if (options_.finishing == Finishing::kStay) possible = share(pool, floor, possible);
  const int64_t before = grown_.size();
  double best = kNothing;
  for (int64_t place = 0; place < ranked; ++place) {
    const auto [cell, score] = ranked_[static_cast<size_t>(place)];
    if (place < possible && ends(rows, request, cell) && place < options_.beam_size) {
      // Where scores are open, settle_pool decides which ones have to go.
      const int64_t most = stop_.most() + (open_.some() ? options_.beam_size : 0);
      pool.add(ending(rows, cell, score, rows.length[request.first] + 1), most);
    } else if (place < possible && !ends(rows, request, cell) && grown_.size() - before < options_.beam_size) {
      best = std::max(best, score);
      grow(rows, cell, score);
    }
  }
  const int64_t length = rows.length[request.first] + 1;
  if (open_.some()) {
    while (settle_pool(rows, request, stop_.most(), false)) {
    }
    if (static_cast<int64_t>(pool.best.size()) > stop_.most()) pool.best.resize(static_cast<size_t>(stop_.most()));
    while (settle_verdict(rows, request, before, length)) {
    }
    best = kNothing;
    for (int64_t row = before; row < grown_.size(); ++row) best = std::max(best, grown_.score[row]);
  }
  return stop_.done(pool, best, length, request.request->max_length);
}

bool BeamSearch::ends(const RowView& rows, const RequestRows& request, int64_t cell) const {
  const int64_t length = rows.length[cell / candidates_.k] + 1;
  return candidates_.token[cell] == options_.eos || length >= request.request->max_length;
}

void BeamSearch::rank(const RowView& rows, const RequestRows& request, int64_t most) {
  // Best first; of equal ones the lower row and the earlier candidate. No two are alike, so any sort gives one order.
  const auto better = [](const Ranked& a, const Ranked& b) {
    return a.score != b.score ? a.score > b.score : a.cell < b.cell;
  };
  ranked_.clear();
  for (int64_t row = request.first; row < request.last; ++row)
    for (int64_t cell = row * candidates_.k; cell < (row + 1) * candidates_.k; ++cell) {
      const double score = rows.score[row] + static_cast<double>(candidates_.value[cell]);
      if (score > kNothing) ranked_.push_back({cell, score});
    }
  if (static_cast<int64_t>(ranked_.size()) > most) {
    std::nth_element(ranked_.begin(), ranked_.begin() + (most - 1), ranked_.end(), better);
    ranked_.resize(static_cast<size_t>(most));
  }
  std::sort(ranked_.begin(), ranked_.end(), better);
}

// The least sum of log probabilities that is kept, where `best` is the highest one.
double BeamSearch::floor_below(double best) const {
  const double floor = best - options_.max_score_margin;
  return std::isfinite(options_.max_score_ratio) ? std::max(floor, best * options_.max_score_ratio) : floor;
}

// Finished hypotheses and candidates together, finished ones first on ties: the `beam_size` best have a place. Drops
// the finished ones that have none, and returns how many of the `possible` best candidates have one.
int64_t BeamSearch::share(Pool& pool, double floor, int64_t possible) {
  std::vector<Finished>& held = pool.best;
  int64_t places = 0;
  for (; places < possible; ++places) {
    int64_t before = places;
    for (const Finished& each : held) before += each.log_prob >= floor && each.log_prob >= ranked_[places].score;
    if (before >= options_.beam_size) break;
  }
  stays_.resize(held.size());
  for (size_t i = 0; i < held.size(); ++i) {
    const double own = held[i].log_prob;
    int64_t before = 0;
    for (size_t j = 0; j < held.size(); ++j) {
      const double other = held[j].log_prob;
      before += other >= floor && (other > own || (other == own && j < i));
    }
    for (int64_t c = 0; c < possible && ranked_[c].score > own; ++c) ++before;
    stays_[i] = own >= floor && before < options_.beam_size;
  }
  size_t kept = 0;
  for (size_t i = 0; i < held.size(); ++i)
    if (stays_[i]) held[kept++] = held[i];
  held.resize(kept);
  return places;
}

Finished BeamSearch::ending(const RowView& rows, int64_t cell, double score, int64_t length) {
  return {stop_.score(score, length), score, add_node(rows, cell)};
}

// No row has any candidate: they end as they are.
void BeamSearch::finish_rows(const RowView& rows, const RequestRows& request) {
  for (int64_t row = request.first; row < request.last; ++row)
    request.request->pool.add({stop_.score(rows.score[row], rows.length[row]), rows.score[row], rows.node[row]},
                              stop_.most());
}

}  // namespace sharpbeam
