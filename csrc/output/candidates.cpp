#include "output/candidates.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace sharpbeam {
namespace {

constexpr int64_t kExactShare = 4;  // more than one word in so many could be the best: take them all

void rank_all(const Words& words, float* logits, float total, int64_t k, float* log_prob, int32_t* token) {
  for (int64_t v = 0; v < words.vocab(); ++v) logits[v] -= total;
  words.table().top_k(logits, words.vocab(), k, log_prob, token);
}

}  // namespace

void CandidateScratch::reserve(int64_t vocab) {
  exact.reserve(vocab);
  found.resize(std::max(found.size(), static_cast<size_t>(vocab + kLanes)));
}

Candidates::Candidates(const Words& words, const float* hidden, float* approx, int64_t k, int64_t refined,
                       CandidateScratch& scratch)
    : words_(words),
      hidden_(hidden),
      approx_(approx),
      k_(k),
      refined_(std::min(refined, words.vocab())),
      seeds_(std::max(k, refined_)),
      scratch_(scratch) {
  float* exact = scratch_.exact.get();
  words_.table().top_k(approx_, words_.vocab(), seeds_, exact, scratch_.found.data());
  words_.logits(hidden_, scratch_.found.data(), seeds_, exact);
}

float Candidates::total() {
  scratch_.kept.resize(static_cast<size_t>(refined_));
  for (int64_t i = 0; i < refined_; ++i) {
    float& at = approx_[scratch_.found[static_cast<size_t>(i)]];
    scratch_.kept[static_cast<size_t>(i)] = at;
    at = scratch_.exact.get()[i];
  }
  const float sum = words_.table().log_sum_exp(approx_, words_.vocab());
  for (int64_t i = 0; i < refined_; ++i) {
    approx_[scratch_.found[static_cast<size_t>(i)]] = scratch_.kept[static_cast<size_t>(i)];
  }
  return sum;
}

int64_t Candidates::best(const Bound& bound, float total, float* log_prob, int32_t* token) {
  const Kernels& table = words_.table();
  float* exact = scratch_.exact.get();
  int32_t* found = scratch_.found.data();
  // The seeds have their exact logits already: they are put aside, in the order of their ids.
  auto& seeds = scratch_.seeds;
  seeds.clear();
  for (int64_t i = 0; i < seeds_; ++i) {
    seeds.emplace_back(found[i], exact[i]);
    approx_[found[i]] = -std::numeric_limits<float>::infinity();
  }
  std::sort(seeds.begin(), seeds.end());
  std::nth_element(exact, exact + (k_ - 1), exact + seeds_, std::greater<float>());
  const float bar = bar_below(exact[k_ - 1], total, 0.0);
  const int64_t others =
      table.find_at_least(approx_, bound.a, bound.b, bound.by_a, bound.by_b, bar, words_.vocab(), found);
  const int64_t count = others + seeds_;
  if (count * kExactShare > words_.vocab()) {
    words_.all_logits(hidden_, approx_);
    rank_all(words_, approx_, total, k_, log_prob, token);
    return words_.vocab();
  }
  words_.logits(hidden_, found, others, exact);
  for (int64_t to = count, i = others, j = seeds_; j > 0; --to) {  // merged from the end, in place
    const bool seed = i == 0 || seeds[static_cast<size_t>(j - 1)].first > found[i - 1];
    found[to - 1] = seed ? seeds[static_cast<size_t>(j - 1)].first : found[i - 1];
    exact[to - 1] = seed ? seeds[static_cast<size_t>(j - 1)].second : exact[i - 1];
    seed ? --j : --i;
  }
  rank_log_probs(table, exact, found, count, total, k_, log_prob, token);
  return count;
}

float exact_total(const Words& words, const float* hidden, float* logits) {
  words.all_logits(hidden, logits);
  return words.table().log_sum_exp(logits, words.vocab());
}

void exact_topk(const Words& words, const float* hidden, float* logits, int64_t k, float* log_prob, int32_t* token,
                float* total) {
  *total = exact_total(words, hidden, logits);
  rank_all(words, logits, *total, k, log_prob, token);
}

}  // namespace sharpbeam
