#include "search/tree.h"

#include <algorithm>
#include <numeric>

namespace sharpbeam {

void TokenTree::reserve(int64_t need, const InFlight& in_flight) {
  const int64_t end = ordered_ ? capacity() : static_cast<int64_t>(free_.size());
  if (next_ + need <= end) return;
  free_.clear();
  for (int64_t node = 0; node < capacity(); ++node)
    if (nodes_[node].owner == kUnused || !in_flight(nodes_[node].owner)) free_.push_back(static_cast<int32_t>(node));
  // Grow where less than half are free, so that this is rare.
  if (static_cast<int64_t>(free_.size()) < std::max(need, capacity() / 2)) {
    const int64_t before = capacity(), more = std::max({need, before, int64_t{1024}});
    nodes_.resize(static_cast<size_t>(before + more), {kRoot, 0, 0.0f, kUnused, kSettled, 0});
    for (int64_t node = before; node < before + more; ++node) free_.push_back(static_cast<int32_t>(node));
  }
  next_ = 0;
  ordered_ = false;
}

double TokenTree::sum(int32_t node) const {
  if (node == kRoot) return 0.0;
  thread_local std::vector<float> values;
  values.clear();
  walk(node, [&](int32_t, float value) { values.push_back(value); });
  return std::accumulate(values.rbegin(), values.rend(), 0.0,
                         [](double sum, float value) { return sum + static_cast<double>(value); });
}

void TokenTree::path(int32_t node, std::vector<int32_t>& token, std::vector<float>& log_prob) const {
  token.clear();
  log_prob.clear();
  walk(node, [&](int32_t id, float value) {
    token.push_back(id);
    log_prob.push_back(value);
  });
  std::reverse(token.begin(), token.end());
  std::reverse(log_prob.begin(), log_prob.end());
}

void TokenTree::clear() {
  next_ = 0;
  ordered_ = true;
  for (Node& node : nodes_) node.owner = kUnused;
}

}  // namespace sharpbeam
