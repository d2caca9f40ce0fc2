#include "search/cube.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace sharpbeam {
namespace {

constexpr float kNoFloat = -std::numeric_limits<float>::infinity();
constexpr int32_t kNoPlace = -1;

// a . b, summed in pairs so that the error does not grow with the width.
float dot(const float* a, const float* b, int64_t n) {
  if (n > 128) {
    const int64_t half = n / 2 / 8 * 8;
    return dot(a, b, half) + dot(a + half, b + half, n - half);
  }
  float sum[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int64_t j = 0; j < 8; ++j) sum[j] += a[i + j] * b[i + j];
  float total = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

}  // namespace

void CubeSearch::predict(Forward& forward, const RowView& rows) {
  const int64_t k = constraints_.wanted(rows, requests_, tree_);
  group_by_token(rows);
  const float* hidden = run(forward, rows, ran_);
  states_.resize(static_cast<size_t>(rows.rows));
  for (int64_t row = 0; row < rows.rows; ++row) states_[row] = run_states_[run_of_[row]];
  group_by_likeness(rows, hidden, forward.dim());
  share_candidates(forward, rows, k, hidden);
  candidates_ = constraints_.apply(rows, k, token_.data(), log_prob_.data());
  if (options_.cube_pruning != CubePruning::kExact) return;
  take_items(rows);
  score_items(forward, rows, hidden);
  candidates_ = constraints_.apply(rows, k, candidates_.token, exact_.data());
}

// The hidden vectors of the rows at `which`; their new states go into run_states_.
const float* CubeSearch::run(Forward& forward, const RowView& rows, const std::vector<int32_t>& which) {
  for (auto* column : {&request_, &state_, &last_, &run_states_}) column->resize(which.size());
  for (size_t i = 0; i < which.size(); ++i) {
    request_[i] = rows.request[which[i]];
    state_[i] = rows.state[which[i]];
    last_[i] = rows.token[which[i]];
  }
  work_.model_rows += static_cast<int64_t>(which.size());
  return forward.step(request_.data(), state_.data(), last_.data(), static_cast<int64_t>(which.size()),
                      run_states_.data());
}

// The rows to run: of those of one request with the same last token the first; by likeness alone all of them.
void CubeSearch::group_by_token(const RowView& rows) {
  ran_.clear();
  run_of_.resize(static_cast<size_t>(rows.rows));
  for (const RequestRows& request : requests_) {
    const auto begin = ran_.size();
    for (int64_t row = request.first; row < request.last; ++row) {
      const auto same = [&](int32_t other) { return rows.token[other] == rows.token[row]; };
      const auto from = ran_.begin() + static_cast<int64_t>(begin);
      const auto found = options_.merge_by == MergeBy::kLikeness ? ran_.end() : std::find_if(from, ran_.end(), same);
      run_of_[row] = static_cast<int32_t>(found - ran_.begin());
      if (found == ran_.end()) ran_.push_back(static_cast<int32_t>(row));
    }
  }
}

// Of the rows that were run, in their order, each joins the first of its request that it is like enough, or speaks for
// itself. Which one depends on the rows of its request only, to the last bit.
void CubeSearch::group_by_likeness(const RowView& rows, const float* hidden, int64_t dim) {
  const auto ran = static_cast<int64_t>(ran_.size());
  speaks_.clear();
  speaker_.resize(ran_.size());
  unit_.resize(static_cast<size_t>(ran * dim));
  int64_t begin = 0;  // of the request's speakers
  for (int64_t g = 0; g < ran; ++g) {
    const auto speakers = static_cast<int64_t>(speaks_.size());
    if (g > 0 && rows.request[ran_[g]] != rows.request[ran_[g - 1]]) begin = speakers;
    int64_t found = speakers;
    if (options_.merge_by != MergeBy::kWord) {
      const float *own = hidden + g * dim, length = std::max(std::sqrt(dot(own, own, dim)), 1e-30f);
      for (int64_t i = 0; i < dim; ++i) unit_[g * dim + i] = own[i] / length;
      const auto like = [&](int64_t a) {
        return dot(&unit_[g * dim], &unit_[speaks_[a] * dim], dim) >= static_cast<float>(options_.merge_threshold);
      };
      found = begin;
      while (found < speakers && !like(found)) ++found;
    }
    speaker_[g] = static_cast<int32_t>(found);
    if (found == speakers) speaks_.push_back(static_cast<int32_t>(g));
  }
}

// The candidates [R, k] of each row: those of the row that speaks for it.
void CubeSearch::share_candidates(Forward& forward, const RowView& rows, int64_t k, const float* hidden) {
  const int64_t dim = forward.dim(), asked = static_cast<int64_t>(speaks_.size());
  asked_hidden_.resize(static_cast<size_t>(asked * dim));
  asked_request_.resize(speaks_.size());
  for (int64_t a = 0; a < asked; ++a) {
    std::copy_n(hidden + speaks_[a] * dim, dim, &asked_hidden_[a * dim]);
    asked_request_[a] = rows.request[ran_[speaks_[a]]];
  }
  asked_wanted_.assign(speaks_.size(), 1);
  for (int64_t row = 0; row < rows.rows; ++row) {
    int64_t& own = asked_wanted_[static_cast<size_t>(speaker_of(row))];
    own = std::max(own, constraints_.own_wanted()[static_cast<size_t>(row)]);
  }
  BeamView beam{};
  beam.wanted = asked_wanted_.data();
  asked_token_.resize(static_cast<size_t>(asked * k));
  asked_log_prob_.resize(asked_token_.size());
  work_.settled += forward.exact_topk(asked_hidden_.data(), asked_request_.data(), asked, k, &beam,
                                      asked_log_prob_.data(), asked_token_.data());
  work_.sub_cubes += asked;
  token_.resize(static_cast<size_t>(rows.rows * k));
  log_prob_.resize(token_.size());
  for (int64_t row = 0; row < rows.rows; ++row) {
    std::copy_n(&asked_token_[speaker_of(row) * k], k, &token_[row * k]);
    std::copy_n(&asked_log_prob_[speaker_of(row) * k], k, &log_prob_[row * k]);
  }
}

// The items of all requests, from the best of each until beam_size of them do not end.
void CubeSearch::take_items(const RowView& rows) {
  items_.clear();
  for (const RequestRows& request : requests_) {
    rank(rows, request, keep_);
    int64_t going = 0;
    for (const Ranked& item : ranked_) {
      if (going == options_.beam_size) break;
      going += candidates_.token[item.cell] != options_.eos;
      items_.push_back(item.cell);
    }
  }
}

// The exact log probabilities of the items: where another row spoke for an item's, its own row is asked, and run.
void CubeSearch::score_items(Forward& forward, const RowView& rows, const float* hidden) {
  const int64_t k = candidates_.k;
  exact_.assign(static_cast<size_t>(rows.rows * k), kNoFloat);
  for (int64_t item : items_) exact_[item] = candidates_.log_prob[item];
  place_.assign(static_cast<size_t>(rows.rows), kNoPlace);
  const auto was_run = [&](int64_t row) { return ran_[run_of_[row]] == row; };
  for (int64_t row = 0; row < rows.rows; ++row)
    if (was_run(row) && ran_[speaks_[speaker_of(row)]] != row) place_[row] = run_of_[row];
  ask(forward, rows, hidden);
  missing_.clear();
  place_.assign(static_cast<size_t>(rows.rows), kNoPlace);
  for (int64_t item : items_) {
    const int64_t row = item / k;
    if (was_run(row) || place_[row] != kNoPlace) continue;
    place_[row] = static_cast<int32_t>(missing_.size());
    missing_.push_back(static_cast<int32_t>(row));
  }
  if (missing_.empty()) return;
  hidden = run(forward, rows, missing_);
  for (size_t i = 0; i < missing_.size(); ++i) states_[missing_[i]] = run_states_[i];
  ask(forward, rows, hidden);
}

// The log probabilities of the items of those rows that have a place in `hidden` [n, D].
void CubeSearch::ask(Forward& forward, const RowView& rows, const float* hidden) {
  const int64_t dim = forward.dim();
  asked_hidden_.clear();
  asked_request_.clear();
  asked_token_.clear();
  asked_item_.clear();
  for (int64_t item : items_) {
    const int64_t row = item / candidates_.k;
    if (place_[row] == kNoPlace) continue;
    const float* own = hidden + place_[row] * dim;
    asked_hidden_.insert(asked_hidden_.end(), own, own + dim);
    asked_request_.push_back(rows.request[row]);
    asked_token_.push_back(candidates_.token[item]);
    asked_item_.push_back(item);
  }
  if (asked_item_.empty()) return;
  asked_log_prob_.resize(asked_item_.size());
  const auto items = static_cast<int64_t>(asked_item_.size());
  work_.settled += forward.exact_log_prob(asked_hidden_.data(), asked_request_.data(), items, asked_token_.data(),
                                          asked_log_prob_.data());
  for (size_t i = 0; i < asked_item_.size(); ++i) exact_[asked_item_[i]] = asked_log_prob_[i];
}

}  // namespace sharpbeam
