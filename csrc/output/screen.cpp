#include "output/screen.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "output/scratch.h"

namespace sharpbeam {
namespace {

struct Ranked {
  float log_prob;
  int32_t token;
};
bool better(const Ranked& a, const Ranked& b) {
  return a.log_prob != b.log_prob ? a.log_prob > b.log_prob : a.token < b.token;
}

struct Scratch {
  Buffer best, exact, all;
  std::vector<int32_t> place, found;
  std::vector<Ranked> ranked;
  // The rows that fall back, and what the other layer answers.
  std::vector<int32_t> uncertain, token;
  Buffer hidden, log_prob;
};

Scratch& scratch() { return thread_scratch<Scratch>(); }

ScreenView checked(const ScreenView& screen, int64_t vocab) {
  check_screen(screen, vocab);
  return screen;
}

}  // namespace

ScreenLayer::ScreenLayer(Array weight, const float* bias, int64_t vocab, int64_t dim, const ScreenView& screen,
                         bool int8, const RowLayer* fallback, const Kernels& table)
    : matrix_(std::move(weight), bias, vocab, dim, table),
      sets_(matrix_, checked(screen, vocab), int8),
      residual_(screen.residual, screen.clusters, dim),
      test_(screen.fallback, screen.clusters, dim, table),
      fallback_(fallback) {
  if (fallback == nullptr) return;
  if (fallback->vocab() != vocab || fallback->dim() != dim) {
    throw std::invalid_argument("fallback is for [" + std::to_string(fallback->vocab()) + ", " +
                                std::to_string(fallback->dim()) + "]; it must be for the same output matrix");
  }
  if (dynamic_cast<const ScreenLayer*>(fallback) != nullptr) {
    throw std::invalid_argument("fallback is a screen; it must be a layer that scores all tokens");
  }
}

BestLogits ScreenLayer::best(const ScreenRow& row, int64_t k, int64_t least) const {
  Scratch& own = scratch();
  const int64_t wanted = std::max(least, sets_.int8() ? std::max(k, kRefined) : int64_t{0});
  if (wanted == 0) return {nullptr, nullptr, 0};
  const int64_t size = sets_.size(row.cluster), count = std::min(wanted, size);
  const BestLogits best{reserved(own.best, count), reserved(own.place, count), count};
  matrix_.table().top_k(row.logits, size, count, best.logit, best.place);
  return best;
}

float ScreenLayer::log_total(const ScreenRow& row) const {
  return matrix_.table().log_sum_exp(row.logits, sets_.size(row.cluster) + residual_.components());
}

float ScreenLayer::log_share_outside(const ScreenRow& row, int32_t token) const {
  float* logits = reserved(scratch().all, vocab());
  matrix_.all_logits(row.hidden, logits);
  const float logit = logits[token];
  const int32_t* set = sets_.set(row.cluster);
  for (int64_t i = 0; i < sets_.size(row.cluster); ++i) logits[set[i]] = kNever;
  return logit - matrix_.table().log_sum_exp(logits, vocab());
}

// The first log probability of a row whose weights are broken is NaN, as that of the exact layer is.
static void tell_broken(float total, int64_t given, float* log_prob) {
  if (given > 0 && !std::isfinite(total)) log_prob[0] = std::nanf("");
}

float ScreenLayer::rank(const ScreenRow& row, const BestLogits& best, int64_t k, float* log_prob,
                        int32_t* token) const {
  if (!sets_.int8()) return rank_floats(row, k, log_prob, token);
  if (sets_.most_deviation(row) <= kMostDeviation) return rank_int8(row, best, k, log_prob, token);
  matrix_.logits(row.hidden, sets_.set(row.cluster), sets_.size(row.cluster), row.logits);
  return rank_floats(row, k, log_prob, token);
}

float ScreenLayer::rank_floats(const ScreenRow& row, int64_t k, float* log_prob, int32_t* token) const {
  const int64_t size = sets_.size(row.cluster), given = std::min(k, size);
  const float total = log_total(row);
  // Normalized before they are ranked, as in the exact layer.
  for (int64_t i = 0; i < size; ++i) row.logits[i] -= total;
  matrix_.table().top_k(row.logits, size, given, log_prob, token);
  for (int64_t i = 0; i < given; ++i) token[i] = sets_.set(row.cluster)[token[i]];
  tell_broken(total, given, log_prob);
  return total;
}

float ScreenLayer::rank_int8(const ScreenRow& row, const BestLogits& best, int64_t k, float* log_prob,
                             int32_t* token) const {
  Scratch& own = scratch();
  const int64_t size = sets_.size(row.cluster);
  const int32_t* set = sets_.set(row.cluster);
  float* exact = reserved(own.exact, size);
  int32_t* found = reserved(own.found, 2 * size + kLanes);
  // Exact logits for the best and for the others that may be among the k best. The normalizer takes the kRefined best
  // ones, whatever k is.
  const BestLogits seeds{best.logit, best.place, std::min(best.count, std::max(k, kRefined))};
  for (int64_t i = 0; i < seeds.count; ++i) found[i] = set[seeds.place[i]];
  matrix_.logits(row.hidden, found, seeds.count, exact);
  for (int64_t i = 0; i < std::min(seeds.count, kRefined); ++i) row.logits[seeds.place[i]] = exact[i];
  const float total = log_total(row);
  for (int64_t i = 0; i < seeds.count; ++i) row.logits[seeds.place[i]] = kNever;
  const int64_t others = seeds.count < size ? reaching(row, seeds, k, total, found + seeds.count) : 0;
  const int64_t count = seeds.count + others;
  matrix_.logits(row.hidden, found + seeds.count, others, exact + seeds.count);
  Ranked* ranked = reserved(own.ranked, count);
  for (int64_t i = 0; i < count; ++i) {
    const float value = exact[i] - total;
    // The normalizer may be a little below the best logit, but no token is likelier than 1.
    ranked[i] = {std::isnan(value) ? kNever : std::min(value, 0.0f), found[i]};
  }
  const int64_t given = std::min(k, count);
  std::partial_sort(ranked, ranked + given, ranked + count, better);
  for (int64_t i = 0; i < given; ++i) {
    log_prob[i] = ranked[i].log_prob;
    token[i] = ranked[i].token;
  }
  tell_broken(total, given, log_prob);
  return total;
}

// The tokens, of those that are not marked with -inf, whose exact logit may be as high as that of the k-th best seed:
// its own may be lower than its int8 logit, and theirs higher.
int64_t ScreenLayer::reaching(const ScreenRow& row, const BestLogits& seeds, int64_t k, float total,
                              int32_t* found) const {
  const int32_t* set = sets_.set(row.cluster);
  const float *norm = sets_.norm(row.cluster), *lost = sets_.lost(row.cluster);
  const float by_norm = kSure * row.by_norm(), by_lost = kSure * row.by_lost(dim());
  float bar = std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < k; ++i) {
    const int32_t place = seeds.place[i];
    bar = std::min(bar, seeds.logit[i] - (by_norm * norm[place] + by_lost * lost[place]));
  }
  bar = bar_below(bar, total, 0.0);
  const int64_t size = sets_.size(row.cluster);
  const int64_t all = matrix_.table().find_at_least(row.logits, norm, lost, by_norm, by_lost, bar, size, found);
  int64_t kept = 0;
  for (int64_t i = 0; i < all; ++i) {
    if (row.logits[found[i]] != kNever) found[kept++] = set[found[i]];
  }
  return kept;
}

template <typename Visit>
int64_t ScreenLayer::for_each_row(const LayerRows& rows, Visit visit) const {
  int32_t* uncertain = reserved(scratch().uncertain, rows.rows);
  int64_t count = 0;
  const bool square = sets_.int8() || test_.k() > 0;
  sets_.for_each_row(matrix_.table(), rows.hidden, rows.rows, residual_.components(), square,
                     [&](const ScreenRow& row) {
                       if (visit(row)) uncertain[count++] = static_cast<int32_t>(row.index);
                     });
  seen_.fetch_add(rows.rows, std::memory_order_relaxed);
  if (count > 0) fallen_back_.fetch_add(count, std::memory_order_relaxed);
  return count;
}

LayerRows ScreenLayer::gather(const LayerRows& rows, int64_t count) const {
  Scratch& own = scratch();
  float* hidden = reserved(own.hidden, count * dim());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = own.uncertain[static_cast<size_t>(i)];
    std::copy_n(rows.hidden + row * dim(), dim(), hidden + i * dim());
  }
  return {hidden, count};
}

void ScreenLayer::topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) const {
  check_k(k, vocab());
  const int64_t uncertain = for_each_row(rows, [&](const ScreenRow& row) {
    float* to = log_prob + row.index * k;
    int32_t* tokens = token + row.index * k;
    const int64_t given = std::min(k, sets_.size(row.cluster));
    std::fill(to + given, to + k, kNever);
    std::fill(tokens + given, tokens + k, 0);
    const float log_mass = residual_.log_mass(matrix_.table(), row, sets_.size(row.cluster));
    const BestLogits seeds = best(row, k, falls_back() ? test_.k() : 0);
    if (falls_back() && test_.margin_fails(matrix_.table(), row, seeds, log_mass)) return true;
    const float total = rank(row, seeds, k, to, tokens);
    return falls_back() && test_.mass_fails(log_mass, total);
  });
  if (uncertain == 0) return;
  const LayerRows part = gather(rows, uncertain);
  Scratch& own = scratch();
  float* found = reserved(own.log_prob, uncertain * k);
  int32_t* tokens = reserved(own.token, uncertain * k);
  fallback_->topk(part, k, found, tokens);
  for (int64_t i = 0; i < uncertain; ++i) {
    const int64_t row = own.uncertain[static_cast<size_t>(i)];
    std::copy_n(found + i * k, k, log_prob + row * k);
    std::copy_n(tokens + i * k, k, token + row * k);
  }
}

void ScreenLayer::log_prob(const LayerRows& rows, const int32_t* token, float* log_prob) const {
  check_tokens(token, rows.rows, vocab());
  const int64_t uncertain = for_each_row(rows, [&](const ScreenRow& row) {
    const float log_mass = residual_.log_mass(matrix_.table(), row, sets_.size(row.cluster));
    const BestLogits seeds = best(row, 1, falls_back() ? test_.k() : 0);
    if (falls_back() && test_.margin_fails(matrix_.table(), row, seeds, log_mass)) return true;
    float ignored;
    int32_t best_token;
    const float total = rank(row, seeds, 1, &ignored, &best_token);
    if (falls_back() && test_.mass_fails(log_mass, total)) return true;
    const int32_t* set = sets_.set(row.cluster);
    float& found = log_prob[row.index];
    if (std::binary_search(set, set + sets_.size(row.cluster), token[row.index])) {
      matrix_.logits(row.hidden, token + row.index, 1, &found);
      found = std::min(found - total, 0.0f);
    } else {
      const bool possible = residual_.components() > 0;
      found = possible ? log_share_outside(row, token[row.index]) + (log_mass - total) : kNever;
    }
    return false;
  });
  if (uncertain == 0) return;
  const LayerRows part = gather(rows, uncertain);
  Scratch& own = scratch();
  float* found = reserved(own.log_prob, uncertain);
  int32_t* tokens = reserved(own.token, uncertain);
  for (int64_t i = 0; i < uncertain; ++i) tokens[i] = token[own.uncertain[static_cast<size_t>(i)]];
  fallback_->log_prob(part, tokens, found);
  for (int64_t i = 0; i < uncertain; ++i) log_prob[own.uncertain[static_cast<size_t>(i)]] = found[i];
}

void ScreenLayer::features(const float* hidden, int64_t rows, float* features) const {
  if (test_.k() == 0)
    throw std::invalid_argument("fallback_k is 0; give the screen a fallback test to see what it sees");
  const Kernels& table = matrix_.table();
  sets_.for_each_row(table, hidden, rows, residual_.components(), true, [&](const ScreenRow& row) {
    const BestLogits seeds = best(row, 1, test_.k());
    float* to = features + row.index * kFeatures;
    to[0] = seeds.logit[0];
    to[1] = test_.kth(seeds);
    to[2] = residual_.log_mass(table, row, sets_.size(row.cluster));
    to[3] = test_.distance(table, row);
    float ignored;
    int32_t best_token;
    to[4] = rank(row, seeds, 1, &ignored, &best_token);
  });
}

}  // namespace sharpbeam
