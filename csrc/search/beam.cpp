#include "search/beam.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace sharpbeam {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

}  // namespace

Beam::Beam(SelectionRules rules, StopRule stop) : rules_(rules), stop_(std::move(stop)) {}

void Beam::begin(const int32_t* request, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    Pool pool;
    pool.best.reserve(static_cast<size_t>(std::min<int64_t>(stop_.room, 64)) + 1);
    pools_[request[i]] = std::move(pool);
  }
}

bool Beam::cancel(int32_t request) {
  const bool found = pools_.erase(request) > 0;
  tidy();
  return found;
}

bool Beam::advance(const BeamRows& rows) {
  if (!numbers(rows)) return false;
  check(rows);
  select(rows.rows);
  const auto grows = static_cast<int64_t>(selection_.going.size() + selection_.ended.size());
  tree_.reserve(grows, [this](int32_t request) { return pools_.count(request) > 0; });
  finish(rows);
  settle(rows);
  return true;
}

void Beam::tidy() {
  if (pools_.empty()) tree_.clear();
}

bool Beam::numbers(const BeamRows& rows) const {
  const int64_t k = rows.rows.k;
  bool sound = true;
  for (int64_t i = 0; i < rows.rows.rows * k; ++i) sound &= rows.log_prob[i] < std::numeric_limits<float>::infinity();
  for (int64_t row = 0; stop_.rule == Stop::kProven && row < rows.rows.rows; ++row)
    sound &= rows.log_prob[row * k] <= 0.0f;
  return sound;
}

void Beam::check(const BeamRows& rows) {
  ++step_;
  for (int64_t row = 0; row < rows.rows.rows; ++row) {
    const int32_t request = rows.rows.request[row], length = rows.rows.length[row];
    if (row == 0 || request != rows.rows.request[row - 1]) {
      const auto found = pools_.find(request);
      if (found == pools_.end())
        throw std::invalid_argument("request " + std::to_string(request) + " is not in flight");
      if (found->second.step == step_)
        throw std::invalid_argument("the rows of request " + std::to_string(request) + " are not side by side");
      found->second.step = step_;
    }
    if (length < 0 || length >= rules_.max_length)
      throw std::invalid_argument("length is " + std::to_string(length) + "; it must be from 0 to below max_length");
    if (!tree_.owns(request, rows.node[row]))
      throw std::invalid_argument("node " + std::to_string(rows.node[row]) + " is not one of its row's request");
  }
}

// Which candidates go on and which end; where the beam is shared, what is finished may lose its place.
void Beam::select(const SelectionRows& rows) {
  const bool looks_back = rules_.stays || rules_.ratio > 0.0 || std::isfinite(rules_.margin);
  SelectionFinished finished{nullptr, nullptr, nullptr};
  int64_t requests = 0;
  if (looks_back) {
    top_.clear();
    held_.clear();
    start_.assign(1, 0);
    for (int64_t row = 0; row < rows.rows; ++row) {
      if (row > 0 && rows.request[row] == rows.request[row - 1]) continue;
      const Pool& pool = this->pool(rows.request[row]);
      top_.push_back(pool.top);
      for (const Finished& one : pool.best) held_.push_back(one.log_prob);
      start_.push_back(static_cast<int32_t>(held_.size()));
      ++requests;
    }
    selection_.kept.resize(held_.size());
    finished = {top_.data(), start_.data(), held_.data()};
  }
  sharpbeam::select(rows, finished, rules_, selection_);
  if (rules_.stays) drop(requests, rows);
}

void Beam::drop(int64_t requests, const SelectionRows& rows) {
  for (int64_t b = 0; b < requests; ++b) {
    std::vector<Finished>& best = pool(rows.request[selection_.first[b]]).best;
    size_t kept = 0;
    for (size_t i = 0; i < best.size(); ++i)
      if (selection_.kept[static_cast<size_t>(start_[b]) + i]) best[kept++] = best[i];
    best.resize(kept);
  }
}

// Nodes for all that was selected, first for what goes on; what ended goes into the pools.
void Beam::finish(const BeamRows& rows) {
  const int64_t k = rows.rows.k;
  const size_t n = selection_.going.size();
  for (auto* column : {&grown_.request, &grown_.state, &grown_.token, &grown_.node, &grown_.length}) column->resize(n);
  grown_.score.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const int64_t cell = selection_.going[i].cell, row = cell / k;
    grown_.request[i] = rows.rows.request[row];
    grown_.state[i] = rows.state[row];
    grown_.token[i] = rows.rows.token[cell];
    grown_.node[i] = tree_.add(rows.node[row], rows.rows.token[cell], rows.log_prob[cell], rows.rows.request[row]);
    grown_.length[i] = rows.rows.length[row] + 1;
    grown_.score[i] = selection_.going[i].score;
  }
  for (const Selected& ended : selection_.ended) {
    const int64_t row = ended.cell / k;
    const int32_t request = rows.rows.request[row];
    const int32_t node = tree_.add(rows.node[row], rows.rows.token[ended.cell], rows.log_prob[ended.cell], request);
    pool(request).add({stop_.score(ended.score, rows.rows.length[row] + 1), ended.score, node}, stop_.room);
  }
}

// Closes the requests that are done, and takes their rows out.
void Beam::settle(const BeamRows& rows) {
  done_.clear();
  const size_t requests = selection_.first.size();
  closed_.assign(requests, 0);
  for (size_t b = 0; b < requests; ++b) {
    const int32_t first = selection_.first[b], request = rows.rows.request[first];
    Pool& found = pool(request);
    const double best = selection_.best[b];
    if (!stop_.done(found, best, rows.rows.length[first] + 1)) continue;
    if (found.best.empty())  // no row had any candidate: they end as they are
      for (int64_t row = first; row < rows.rows.rows && rows.rows.request[row] == request; ++row)
        found.add({stop_.score(rows.rows.score[row], rows.rows.length[row]), rows.rows.score[row], rows.node[row]},
                  stop_.room);
    if (static_cast<int64_t>(found.best.size()) > stop_.answers) found.best.resize(static_cast<size_t>(stop_.answers));
    const int64_t saved = best > kNothing ? rules_.max_length - (rows.rows.length[first] + 1) : 0;
    done_.push_back({request, saved, std::move(found.best)});
    pools_.erase(request);
    closed_[b] = 1;
  }
  if (done_.empty()) return;
  size_t kept = 0, b = 0;
  for (size_t i = 0; i < grown_.request.size(); ++i) {
    while (rows.rows.request[selection_.first[b]] != grown_.request[i]) ++b;
    if (closed_[b]) continue;
    for (auto* column : {&grown_.request, &grown_.state, &grown_.token, &grown_.node, &grown_.length})
      (*column)[kept] = (*column)[i];
    grown_.score[kept++] = grown_.score[i];
  }
  for (auto* column : {&grown_.request, &grown_.state, &grown_.token, &grown_.node, &grown_.length})
    column->resize(kept);
  grown_.score.resize(kept);
}

}  // namespace sharpbeam
