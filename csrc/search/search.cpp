#include "search/search.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace sharpbeam {
namespace {

// In one call: a sentence of twenty tokens at beam 6, or one step of a batch. Signals wait for them.
constexpr int64_t kRowsAtOnce = 128;

}  // namespace

void Search::begin(const SearchRequest& request) {
  if (in_flight_.empty()) tree_.clear();
  const auto [place, added] = in_flight_.try_emplace(request.index);
  if (!added) throw std::invalid_argument("request " + std::to_string(request.index) + " is in flight already");
  InFlight& entry = place->second;
  entry.prefix.assign(request.prefix.begin(), request.prefix.end());
  entry.prefix_log_prob.assign(request.prefix_log_prob.begin(), request.prefix_log_prob.end());
  entry.prefix_log_prob.resize(entry.prefix.size());
  const int64_t least = static_cast<int64_t>(entry.prefix.size()) + 1;
  entry.max_length = options_.max_length;
  if (request.max_length > 0) entry.max_length = std::min(entry.max_length, std::max(request.max_length, least));
  enter(entry, request);
}

bool Search::cancel(int32_t request) {
  const auto found = in_flight_.find(request);
  if (found == in_flight_.end()) return false;
  open_.release(found->second);
  in_flight_.erase(found);
  return true;
}

std::optional<std::vector<Finished>> Search::finished(int32_t request) const {
  const auto found = in_flight_.find(request);
  if (found == in_flight_.end()) return std::nullopt;
  std::vector<Finished> all = found->second.pool.best;
  std::erase_if(all, [](const Finished& one) { return one.node == TokenTree::kNoNode; });
  return all;
}

void Search::step(Forward& forward, const RowView& rows, bool whole) {
  work_ = {};
  done_.clear();
  step_once(forward, rows);
  while (whole && done_.empty() && work_.expansions < kRowsAtOnce && !interrupted_.exchange(false)) {
    std::swap(given_, grown_);
    forward.retain(given_.state.data(), given_.size());
    step_once(forward, given_.view());
  }
}

void Search::step_once(Forward& forward, const RowView& rows) {
  check(rows);
  forward_ = &forward;
  open_.rest();
  score_.assign(rows.score, rows.score + rows.rows);
  RowView mine = rows;
  mine.score = score_.data();
  predict(forward, mine);
  grown_.resize(0);
  advance(mine);
  ++work_.steps;
  work_.expansions += rows.rows;
  work_.request_steps += static_cast<int64_t>(requests_.size());
}

// Finds the rows of each request. Nothing changes where it throws.
void Search::check(const RowView& rows) {
  ++step_;
  requests_.clear();
  for (int64_t row = 0; row < rows.rows; ++row) {
    const int32_t index = rows.request[row], length = rows.length[row];
    if (row == 0 || index != rows.request[row - 1]) {
      const auto found = in_flight_.find(index);
      if (found == in_flight_.end())
        throw std::invalid_argument("request " + std::to_string(index) + " is not in flight");
      if (found->second.step == step_)
        throw std::invalid_argument("the rows of request " + std::to_string(index) + " are not side by side");
      found->second.step = step_;
      requests_.push_back({row, row, index, &found->second});
    }
    requests_.back().last = row + 1;
    if (length < 0 || length >= requests_.back().request->max_length)
      throw std::invalid_argument("length is " + std::to_string(length) + "; it must be from 0 to below max_length");
    if (!tree_.owns(index, rows.node[row]))
      throw std::invalid_argument("node " + std::to_string(rows.node[row]) + " is not one of its row's request");
    if (length != tree_.length(rows.node[row]))
      throw std::invalid_argument("length is " + std::to_string(length) + "; it must be that of node " +
                                  std::to_string(rows.node[row]) + ", " + std::to_string(tree_.length(rows.node[row])));
  }
  for (const RequestRows& request : requests_) check_rows(request);
}

void Search::predict(Forward& forward, const RowView& rows) {
  const int64_t k = constraints_.wanted(rows, requests_, tree_);
  states_.resize(static_cast<size_t>(rows.rows));
  token_.resize(static_cast<size_t>(rows.rows * k));
  log_prob_.resize(token_.size());
  const float* hidden = forward.step(rows.request, rows.state, rows.token, rows.rows, states_.data());
  BeamView beam{};
  narrow(rows, beam);
  beam.wanted = constraints_.own_wanted().data();
  if (forward.estimates() && settles()) {
    const Estimates* estimates = open_.begin(rows, requests_);
    beam.open = open_.spread();
    forward.topk(hidden, rows.request, rows.rows, k, &beam, estimates, log_prob_.data(), token_.data());
    open_.keep(rows, requests_, hidden, forward.dim());
    for (int64_t row = 0; row < rows.rows; ++row)
      if (constraints_.forces(row)) open_.close(row);  // what is forced rests on no estimate
  } else if (constraints_.takes_totals()) {
    total_.resize(static_cast<size_t>(rows.rows));
    work_.settled += forward.topk_and_totals(hidden, rows.request, rows.rows, k, &beam, log_prob_.data(), token_.data(),
                                             total_.data());
  } else {
    work_.settled += forward.exact_topk(hidden, rows.request, rows.rows, k, &beam, log_prob_.data(), token_.data());
  }
  work_.settled += constraints_.complete(rows, forward, hidden, k, token_.data(), log_prob_.data());
  const float* total = constraints_.takes_totals() ? total_.data() : nullptr;
  candidates_ = constraints_.apply(rows, k, token_.data(), log_prob_.data(), total);
}

void Search::reserve(int64_t nodes) {
  tree_.reserve(nodes, [this](int32_t request) { return in_flight_.contains(request); });
}

int32_t Search::add_node(const RowView& rows, int64_t cell) {
  const int64_t row = cell / candidates_.k;
  return tree_.add(rows.node[row], candidates_.token[cell], candidates_.log_prob[cell], rows.request[row],
                   open_.place(row));
}

void Search::grow(const RowView& rows, int64_t cell, double score) {
  const int64_t row = cell / candidates_.k;
  grown_.push(rows.request[row], states_[static_cast<size_t>(row)], candidates_.token[cell], add_node(rows, cell),
              rows.length[row] + 1, score);
}

void Search::close(const RequestRows& request, int64_t saved_steps) {
  open_.release(*request.request);
  done_.push_back({request.index, saved_steps, std::move(request.request->pool.best)});
  in_flight_.erase(request.index);
}

}  // namespace sharpbeam
