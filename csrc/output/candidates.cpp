#include "output/candidates.h"

#include <algorithm>
#include <functional>

#include "output/scratch.h"

namespace sharpbeam {
namespace {

constexpr int64_t kExactShare = 4;  // more than one token in so many could be the best: take them all

}  // namespace

void CandidateScratch::reserve(int64_t vocab) {
  exact.reserve(vocab);
  reserved(found, vocab + kLanes);
}

Candidates::Candidates(const OutputMatrix& matrix, const float* hidden, float* approx, int64_t k, int64_t refined,
                       CandidateScratch& scratch)
    : matrix_(matrix),
      hidden_(hidden),
      approx_(approx),
      k_(k),
      refined_(std::min(refined, matrix.vocab())),
      seeds_(std::max(k, refined_)),
      scratch_(scratch) {
  float* exact = scratch_.exact.get();
  matrix_.table().top_k(approx_, matrix_.vocab(), seeds_, exact, scratch_.found.data());
  matrix_.logits(hidden_, scratch_.found.data(), seeds_, exact);
}

float Candidates::log_total() {
  float* kept = reserved(scratch_.kept, refined_);
  const int32_t* found = scratch_.found.data();
  for (int64_t i = 0; i < refined_; ++i) {
    kept[i] = approx_[found[i]];
    approx_[found[i]] = scratch_.exact.get()[i];
  }
  const float total = matrix_.table().log_sum_exp(approx_, matrix_.vocab());
  for (int64_t i = 0; i < refined_; ++i) approx_[found[i]] = kept[i];
  return total;
}

int64_t Candidates::best(const Bound& bound, float total, float* log_prob, int32_t* token) {
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
  const int64_t others = table.find_at_least(approx_, bound.a, bound.b, bound.by_a, bound.by_b, bar, vocab, found);
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
