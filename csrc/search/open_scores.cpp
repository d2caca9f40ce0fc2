#include "search/open_scores.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>

namespace sharpbeam {

Estimates* OpenScores::begin(const RowView& rows, const std::vector<RequestRows>& requests) {
  const auto count = static_cast<size_t>(rows.rows);
  total_.assign(count, 0.0f), error_.assign(count, 0.0f), spread_.assign(count, 0.0);
  estimates_ = {total_.data(), error_.data()};
  place_.clear();
  // All rows of a request are of one length: they are walked up together until they meet.
  for (const RequestRows& request : requests) {
    node_.assign(rows.node + request.first, rows.node + request.last);
    while (std::adjacent_find(node_.begin(), node_.end(), std::not_equal_to<>()) != node_.end()) {
      for (size_t i = 0; i < node_.size(); ++i) {
        if (node_[i] == TokenTree::kRoot) continue;
        spread_[static_cast<size_t>(request.first) + i] += square_of(tree_.open(node_[i]));
        node_[i] = tree_.parent(node_[i]);
      }
    }
  }
  for (double& each : spread_) each = std::sqrt(each);
  return &estimates_;
}

void OpenScores::keep(const RowView& rows, const std::vector<RequestRows>& requests, const float* hidden, int64_t dim) {
  resize(dim);
  place_.assign(static_cast<size_t>(rows.rows), TokenTree::kSettled);
  for (const RequestRows& request : requests) {
    if (request.request->open.size() >= request.request->most_open) release_dead(rows, request);
    for (int64_t row = request.first; row < request.last; ++row) {
      const auto r = static_cast<size_t>(row);
      if (error_[r] == 0.0f) continue;
      const int32_t place = place_[r] = take();
      places_[static_cast<size_t>(place)] = {total_[r], error_[r], request.index, false, false, false, 0.0};
      std::copy_n(hidden + row * dim, dim, hidden_of(place));
      request.request->open.push_back(place);
    }
  }
}

// Frees the places that no hypothesis of a request rests on any more, and lets as many come again before the next time.
void OpenScores::release_dead(const RowView& rows, const RequestRows& request) {
  InFlight& own = *request.request;
  const auto visit = [&](int32_t node) {
    for (; node != TokenTree::kRoot; node = tree_.parent(node)) {
      const int32_t at = tree_.open(node);
      if (at == TokenTree::kSettled) continue;
      bool& alive = places_[static_cast<size_t>(at)].alive;
      if (alive) return;  // so is all above
      alive = true;
    }
  };
  for (int64_t row = request.first; row < request.last; ++row) visit(rows.node[row]);
  for (const Finished& each : own.pool.best) visit(each.node);
  const auto dead = std::partition(own.open.begin(), own.open.end(),
                                   [&](int32_t at) { return places_[static_cast<size_t>(at)].alive; });
  free_.insert(free_.end(), dead, own.open.end());
  own.open.erase(dead, own.open.end());
  for (const int32_t at : own.open) places_[static_cast<size_t>(at)].alive = false;
  own.most_open = std::max<size_t>(kChunk, 2 * own.open.size());
}

void OpenScores::resize(int64_t dim) {
  if (dim == dim_) return;
  if (free_.size() != places_.size()) {
    throw std::invalid_argument("the hidden vectors are " + std::to_string(dim) +
                                " wide; those before, of requests in " + "flight, were " + std::to_string(dim_));
  }
  dim_ = dim;
  places_.clear(), hidden_.clear(), free_.clear();
}

int32_t OpenScores::take() {
  if (free_.empty()) {
    const auto before = static_cast<int32_t>(places_.size());
    places_.resize(static_cast<size_t>(before + kChunk));
    hidden_.push_back(std::make_unique_for_overwrite<float[]>(static_cast<size_t>(kChunk * dim_)));
    free_.reserve(places_.capacity());
    for (int32_t place = before + kChunk; place-- > before;) free_.push_back(place);
  }
  const int32_t place = free_.back();
  free_.pop_back();
  return place;
}

template <typename Visit>
void OpenScores::for_each_between(int32_t a, int32_t b, Visit visit) const {
  while (a != b) {
    const bool siblings = a != TokenTree::kRoot && b != TokenTree::kRoot && tree_.open(a) == tree_.open(b);
    for (int32_t* each : {&a, &b}) {
      if (*each == TokenTree::kRoot) continue;
      if (!siblings) visit(tree_.open(*each));  // else of one row, whose normalizer both have
      *each = tree_.parent(*each);
    }
  }
}

double OpenScores::between(const RowView& rows, int64_t a, int64_t b) const {
  if (a == b) return 0.0;
  double square = square_of(place(a)) + square_of(place(b));
  for_each_between(rows.node[a], rows.node[b], [&](int32_t place) { square += square_of(place); });
  return std::sqrt(square);
}

double OpenScores::of(int32_t node) const {
  double square = 0.0;
  for (; node != TokenTree::kRoot; node = tree_.parent(node)) square += square_of(tree_.open(node));
  return std::sqrt(square);
}

void OpenScores::mark_place(int32_t place) {
  if (place == TokenTree::kSettled) return;
  Place& one = places_[static_cast<size_t>(place)];
  if (one.marked || one.error == 0.0f) return;
  one.marked = true;
  marked_.push_back(place);
}

void OpenScores::mark_largest(double most, double each) {
  std::sort(some_.begin(), some_.end(), [&](int32_t a, int32_t b) { return error_of(a) > error_of(b); });
  double left = 0.0;
  for (const int32_t place : some_) left += square_of(place);
  for (const int32_t place : some_) {
    if (left <= most * most && error_of(place) <= each) return;
    mark_place(place);
    left -= square_of(place);
  }
}

void OpenScores::mark_between(const RowView& rows, int64_t a, int64_t b, double most) {
  some_.assign({place(a), place(b)});
  for_each_between(rows.node[a], rows.node[b], [&](int32_t place) { some_.push_back(place); });
  mark_largest(most, std::numeric_limits<double>::infinity());
}

void OpenScores::mark(int32_t node, double most, double each) {
  some_.clear();
  for (; node != TokenTree::kRoot; node = tree_.parent(node)) some_.push_back(tree_.open(node));
  mark_largest(most, each);
}

int64_t OpenScores::settle(Forward& forward) {
  const auto count = static_cast<int64_t>(marked_.size());
  const auto first = std::partition(marked_.begin(), marked_.end(), [&](int32_t place) {
    return forward.has_closer() && !places_[static_cast<size_t>(place)].retaken;
  });
  const int64_t closer_count = first - marked_.begin();  // the others take exact ones
  asked_.resize(static_cast<size_t>(count * dim_));
  taken_.resize(static_cast<size_t>(count)), taken_error_.assign(static_cast<size_t>(count), 0.0f);
  request_.resize(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int32_t place = marked_[static_cast<size_t>(i)];
    std::copy_n(hidden_of(place), dim_, asked_.begin() + i * dim_);
    request_[static_cast<size_t>(i)] = places_[static_cast<size_t>(place)].request;
  }
  if (closer_count > 0) {
    forward.closer_totals(asked_.data(), request_.data(), closer_count, {taken_.data(), taken_error_.data()});
  }
  if (count > closer_count) {
    forward.exact_totals(asked_.data() + closer_count * dim_, request_.data() + closer_count, count - closer_count,
                         taken_.data() + closer_count);
  }
  for (int64_t i = 0; i < count; ++i) {
    Place& one = places_[static_cast<size_t>(marked_[static_cast<size_t>(i)])];
    one.moved = static_cast<double>(one.total) - static_cast<double>(taken_[static_cast<size_t>(i)]);
    one.total = taken_[static_cast<size_t>(i)], one.error = taken_error_[static_cast<size_t>(i)];
    one.retaken = true;
  }
  return count;
}

void OpenScores::correct(int64_t row, int64_t k, float* log_prob) const {
  const int32_t at = place(row);
  if (at == TokenTree::kSettled || !places_[static_cast<size_t>(at)].marked) return;
  for (int64_t i = 0; i < k; ++i) log_prob[i] = sharpbeam::settled(log_prob[i], places_[static_cast<size_t>(at)].moved);
}

bool OpenScores::correct(int32_t node) {
  bool changed = false;
  for (; node != TokenTree::kRoot; node = tree_.parent(node)) {
    const int32_t at = tree_.open(node);
    if (at == TokenTree::kSettled || !places_[static_cast<size_t>(at)].marked) continue;
    // Closed until `done`, so that no other path corrects it again.
    tree_.settle(node, sharpbeam::settled(tree_.log_prob(node), places_[static_cast<size_t>(at)].moved));
    corrected_.emplace_back(node, at);
    changed = true;
  }
  return changed;
}

void OpenScores::done() {
  for (const auto& [node, at] : corrected_) {
    if (error_of(at) > 0.0) tree_.reopen(node, at);
  }
  corrected_.clear();
  for (const int32_t place : marked_) {
    places_[static_cast<size_t>(place)].marked = false;
    if (places_[static_cast<size_t>(place)].error > 0.0f) continue;
    for (int32_t& of_row : place_) {
      if (of_row == place) of_row = TokenTree::kSettled;
    }
  }
  marked_.clear();
}

void OpenScores::release(InFlight& request) {
  free_.insert(free_.end(), request.open.begin(), request.open.end());
  request.open.clear();
}

}  // namespace sharpbeam
