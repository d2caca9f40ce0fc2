#include "search/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

namespace sharpbeam {

namespace {

SearchOptions drawing(SearchOptions options) {
  options.sampling = true;
  return options;
}

}  // namespace

SamplingSearch::SamplingSearch(const SearchOptions& options)
    : Search(drawing(options), std::min(options.top_k > 0 ? options.top_k : options.vocab, options.vocab)),
      stop_(options) {}

void SamplingSearch::enter(InFlight& entry, const SearchRequest& request) {
  const auto samples = static_cast<int32_t>(options_.num_hypotheses);
  for (int32_t number = 0; number < samples; ++number)
    entry.samples.push_back({number, Philox({options_.seed, request.name}, {0, 0, 0, static_cast<uint64_t>(number)})});
  entry.pool.best.assign(static_cast<size_t>(samples), {0.0, 0.0, TokenTree::kNoNode});  // by the number of the sample
}

void SamplingSearch::check_rows(const RequestRows& request) const {
  const auto live = static_cast<int64_t>(request.request->samples.size());
  if (request.last - request.first == live) return;
  throw std::invalid_argument("request " + std::to_string(request.index) + " has " +
                              std::to_string(request.last - request.first) + " rows; it must have " +
                              std::to_string(live) + ", one for each sample that is drawn");
}

void SamplingSearch::advance(const RowView& rows) {
  reserve(rows.rows);
  for (const RequestRows& request : requests_) {
    InFlight& entry = *request.request;
    size_t live = 0;
    for (int64_t row = request.first; row < request.last; ++row) {
      Sample& sample = entry.samples[static_cast<size_t>(row - request.first)];
      Finished& answer = entry.pool.best[static_cast<size_t>(sample.number)];
      const int64_t cell = choose(row, sample.random.next());
      if (cell < 0) {  // no candidate: the answer ends as it is
        answer = {stop_.score(rows.score[row], rows.length[row]), rows.score[row], rows.node[row]};
        continue;
      }
      const double score = rows.score[row] + static_cast<double>(candidates_.log_prob[cell]);
      const int64_t length = rows.length[row] + 1;
      if (candidates_.token[cell] == options_.eos || length >= entry.max_length) {
        answer = {stop_.score(score, length), score, add_node(rows, cell)};
        continue;
      }
      grow(rows, cell, score);
      entry.samples[live++] = sample;
    }
    entry.samples.erase(entry.samples.begin() + static_cast<int64_t>(live), entry.samples.end());
    if (live == 0) close(request, 0);
  }
}

int64_t SamplingSearch::choose(int64_t row, double number) {
  const auto k = static_cast<size_t>(candidates_.k);
  const float* value = candidates_.value + row * candidates_.k;
  order_.resize(k);
  total_.resize(k);
  std::iota(order_.begin(), order_.end(), 0);
  const auto better = [&](int64_t a, int64_t b) { return value[a] != value[b] ? value[a] > value[b] : a < b; };
  if (!std::is_sorted(order_.begin(), order_.end(), better)) std::sort(order_.begin(), order_.end(), better);
  const float best = value[order_[0]];
  if (best == -std::numeric_limits<float>::infinity()) return -1;
  const auto weight = [&](size_t i) {
    return std::exp((static_cast<double>(value[order_[i]]) - static_cast<double>(best)) / options_.temperature);
  };
  weight_.resize(k);
  double sum = 0.0;
  for (size_t i = 0; i < k; ++i) {
    weight_[i] = weight(i);
    total_[i] = sum += weight_[i];
  }
  size_t last = 0;  // of those that stay
  for (size_t i = 1; i < k; ++i) last += total_[i] - weight_[i] < options_.top_p * sum;
  const double wanted = number * total_[last];
  const auto place = std::upper_bound(total_.begin(), total_.begin() + static_cast<int64_t>(last), wanted);
  return row * candidates_.k + order_[static_cast<size_t>(place - total_.begin())];
}

}  // namespace sharpbeam
