#include "output/candidates.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "output/scratch.h"

namespace sharpbeam {
namespace {

constexpr int64_t kGroups = 64;
constexpr int64_t kExactShare = 4;         // if more than one token in this many could be the best: take them all
constexpr double kMostUncertain = 0x1p-7;  // nats; rows of models have a fiftieth, of outlier columns any size
constexpr double kMostShared = 0x1p-3;     // nats, of a mean error; rows of models have a tenth of it
constexpr double kMostUnlike = 16.0;       // rows of models have .5 to 1.9
constexpr double kLeastOthers = 1e-6, kNothing = 24.0;  // of a sum of floats: less is not seen; nats below one
// The others share some of the mean error of the refined logits, and some of the mean error of all tokens. What is left
// is one error of all of them, kCommon times the size of the refined errors, and one of each, of that size: kDeviations
// of their root sum of squares are stated. Of 3,000 rows each of two models, 99.9% were within 3.3.
constexpr double kOfRefined = 0.3, kOfAll = 0.5, kCommon = 0.15, kDeviations = 3.0;

}  // namespace

void CandidateScratch::reserve(int64_t vocab) {
  const int64_t count = panels_of(vocab);
  exact.reserve(count * kPanel);
  maxima.reserve(count);
  reserved(found, count * kPanel + kLanes);
  reserved(panels, count + kLanes);
}

Candidates::Candidates(const OutputMatrix& matrix, const float* hidden, float* approx, const Bound& bound, int64_t k,
                       int64_t refined, CandidateScratch& scratch)
    : matrix_(matrix),
      hidden_(hidden),
      approx_(approx),
      bound_(bound),
      k_(k),
      refined_(std::min(refined, matrix.vocab())),
      seeds_(std::max(k, refined_)),
      panels_(panels_of(matrix.vocab())),
      scratch_(scratch) {
  matrix_.table().panel_maxima(approx_, panels_, scratch_.maxima.get());
  find_seeds();
  matrix_.logits(hidden_, scratch_.found.data(), seeds_, scratch_.exact.get());
}

// The `seeds_` largest, into the first of `found`. No panel holds one whose maximum is below the `seeds_`-th largest of
// all maxima, and few elements of the other panels reach it: so most elements are looked at once, for their maximum.
void Candidates::find_seeds() {
  const Kernels& table = matrix_.table();
  float* exact = scratch_.exact.get();
  int32_t* found = scratch_.found.data();
  if (panels_ < 4 * seeds_) {
    table.top_k(approx_, matrix_.vocab(), seeds_, exact, found);
    rest_ = exact[std::max<int64_t>(refined_, 1) - 1];
    return;
  }
  const float* maxima = scratch_.maxima.get();
  int32_t* panels = scratch_.panels.data();
  // `seeds_` of these groups of panels hold an element that reaches the `seeds_`-th largest of their maxima.
  const int64_t groups = std::min(panels_, std::max(kGroups, 4 * seeds_));
  float* group = reserved(scratch_.kept, groups);
  std::copy_n(maxima, groups, group);
  for (int64_t p = groups; p < panels_; p += groups)
    for (int64_t g = 0; g < std::min(groups, panels_ - p); ++g) group[g] = std::max(group[g], maxima[p + g]);
  table.top_k(group, groups, seeds_, exact, found);
  const float bar = exact[seeds_ - 1];
  const int64_t opened = table.find_at_least(maxima, bound_.most_a, bound_.most_b, 0.0f, 0.0f, bar, panels_, panels);
  const int64_t count =
      table.find_in_panels(approx_, bound_.a, bound_.b, 0.0f, 0.0f, bar, panels, opened, found);  // ascending
  float* values = reserved(scratch_.kept, count);
  int32_t* order = reserved(scratch_.order, seeds_);
  for (int64_t i = 0; i < count; ++i) values[i] = approx_[found[i]];
  table.top_k(values, count, seeds_, exact, order);
  rest_ = exact[std::max<int64_t>(refined_, 1) - 1];
  for (int64_t i = 0; i < seeds_; ++i) order[i] = found[order[i]];
  std::copy_n(order, seeds_, found);
}

float Candidates::log_total(double mean_error, float& error) {
  float* kept = reserved(scratch_.kept, refined_);
  const int32_t* found = scratch_.found.data();
  double square = 0.0, sum = 0.0, own = 0.0;
  for (int64_t i = 0; i < refined_; ++i) {
    const float exact = scratch_.exact.get()[i];
    kept[i] = std::exchange(approx_[found[i]], exact);
    const double off = static_cast<double>(kept[i]) - exact;
    square += off * off, sum += off, own += bound_.square(bound_.a[found[i]], bound_.b[found[i]]);
  }
  const Kernels& table = matrix_.table();
  const float top = *std::max_element(scratch_.exact.get(), scratch_.exact.get() + refined_);
  // All others are at most `rest_`.
  const float total = top >= rest_ ? table.log_sum_exp_below(approx_, top, matrix_.vocab())
                                   : table.log_sum_exp(approx_, matrix_.vocab());
  for (int64_t i = 0; i < refined_; ++i) approx_[found[i]] = kept[i];
  const double all = bound_.mean_square * static_cast<double>(refined_), more = all > own ? all / own : 1.0;
  square *= more / static_cast<double>(refined_), error = 0.0f;
  if (refined_ == matrix_.vocab()) return total;
  const double shared = kOfRefined * sum / static_cast<double>(refined_) + kOfAll * mean_error;
  // A mean error of any size comes of a few tokens with huge rows, and says nothing of the others.
  if (!(std::fabs(shared) <= kMostShared && more <= kMostUnlike) || hides_long_rows(total) ||
      uncertainty(top, total, square) > kMostUncertain) {
    return matrix_.log_total(hidden_, reserved(scratch_.all, matrix_.vocab()));
  }
  const double known = table.log_sum_exp(scratch_.exact.get(), refined_);
  const double others = std::max(std::expm1(total - known), 0.0) * std::exp(-shared);  // times the known ones
  const double share = std::max(others / (1.0 + others), kLeastOthers);
  const double largest = std::min(share, std::exp(static_cast<double>(rest_) - total));
  error = above(kDeviations * std::sqrt(square * share * (kCommon * kCommon * share + largest)));
  return static_cast<float>(known + std::log1p(others));
}

bool Candidates::hides_long_rows(float total) const {
  const int32_t *found = scratch_.found.data(), *end = found + refined_;
  double most = 0.0;
  for (const int32_t t : bound_.longest) {
    const double bound = approx_[t] + bound_.by_a * bound_.a[t] + bound_.by_b * bound_.b[t];
    if (!(bound < total - kNothing) && std::find(found, end, t) == end) most += std::exp(bound - total);
  }
  return !(most <= kMostUncertain);
}

// Errors of size s raise a mean of exponentials by exp(s^2 / 2). The others may be 4 s larger than they seem.
double Candidates::uncertainty(float top, float total, double square_error) const {
  const double raised = std::expm1(std::min(square_error / 2.0, 64.0));
  if (raised <= kMostUncertain) return raised;
  const double known = matrix_.table().log_sum_exp(scratch_.exact.get(), refined_);
  const double others = std::log(std::max(std::expm1(total - known), kLeastOthers));
  const double most = std::log(static_cast<double>(matrix_.vocab())) + rest_ - top;
  return raised * std::exp(std::min(std::min(others, most) + 4.0 * std::sqrt(square_error), 0.0));
}

int64_t Candidates::best(float total, float* log_prob, int32_t* token) {
  const Kernels& table = matrix_.table();
  const int64_t vocab = matrix_.vocab();
  float* exact = scratch_.exact.get();
  int32_t* found = scratch_.found.data();
  // The seeds have their exact logits already: they are put aside, in the order of their ids.
  auto& seeds = scratch_.seeds;
  seeds.clear();
  for (int64_t i = 0; i < seeds_; ++i) {
    seeds.emplace_back(found[i], exact[i]);
    approx_[found[i]] = kNever;
  }
  std::sort(seeds.begin(), seeds.end());
  std::nth_element(exact, exact + (k_ - 1), exact + seeds_, std::greater<float>());
  const float bar = bar_below(exact[k_ - 1], total, 0.0);
  int32_t* panels = scratch_.panels.data();
  const int64_t opened = table.find_at_least(scratch_.maxima.get(), bound_.most_a, bound_.most_b, bound_.by_a,
                                             bound_.by_b, bar, panels_, panels);
  const int64_t others =
      table.find_in_panels(approx_, bound_.a, bound_.b, bound_.by_a, bound_.by_b, bar, panels, opened, found);
  const int64_t count = others + seeds_;
  if (count * kExactShare > vocab) {
    matrix_.all_logits(hidden_, approx_);
    rank_log_probs(table, approx_, nullptr, vocab, total, k_, log_prob, token);
    return vocab;
  }
  matrix_.logits(hidden_, found, others, exact);
  for (int64_t to = count, i = others, j = seeds_; j > 0; --to) {  // merged from the end, in place
    const auto& [id, logit] = seeds[static_cast<size_t>(j - 1)];
    const bool seed = i == 0 || id > found[i - 1];
    found[to - 1] = seed ? id : found[i - 1];
    exact[to - 1] = seed ? logit : exact[i - 1];
    seed ? --j : --i;
  }
  rank_log_probs(table, exact, found, count, total, k_, log_prob, token);
  return count;
}

}  // namespace sharpbeam
