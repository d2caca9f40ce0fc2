#include "output/screen_view.h"

#include <numeric>
#include <stdexcept>
#include <string>

namespace sharpbeam {
namespace {

void check_sizes(const ScreenView& screen, int64_t vocab) {
  if (screen.clusters < 1) throw std::invalid_argument("the screen has no clusters; it must have at least 1");
  if (screen.start[0] != 0) {
    throw std::invalid_argument("start[0] is " + std::to_string(screen.start[0]) + "; it must be 0");
  }
  for (int64_t t = 0; t < screen.clusters; ++t) {
    if (screen.start[t + 1] <= screen.start[t]) {
      throw std::invalid_argument("start[" + std::to_string(t + 1) + "] is " + std::to_string(screen.start[t + 1]) +
                                  "; it must be above start[" + std::to_string(t) + "]: each cluster has a token");
    }
  }
  const ResidualView& residual = screen.residual;
  if (residual.weight != nullptr && residual.components < 1) {
    throw std::invalid_argument("the residual mass has " + std::to_string(residual.components) +
                                " components; it must have at least 1");
  }
  const std::string k = std::to_string(screen.fallback.k);
  if (screen.fallback.k < 0 || screen.fallback.k > vocab) {
    throw std::invalid_argument("fallback_k is " + k + "; it must be from 0 to " + std::to_string(vocab));
  }
  if (screen.fallback.k > 0 && residual.weight == nullptr) {
    throw std::invalid_argument("fallback_k is " + k + "; it must be 0 without a residual mass");
  }
}

void check_tokens_of_sets(const ScreenView& screen, int64_t vocab) {
  for (int64_t t = 0; t < screen.clusters; ++t) {
    int64_t last = -1;
    for (int64_t i = screen.start[t]; i < screen.start[t + 1]; ++i) {
      if (screen.token[i] <= last || screen.token[i] >= vocab) {
        throw std::invalid_argument("token[" + std::to_string(i) + "] is " + std::to_string(screen.token[i]) +
                                    "; the tokens of a cluster must ascend, from 0 to " + std::to_string(vocab - 1));
      }
      last = screen.token[i];
    }
  }
}

}  // namespace

void check_screen(const ScreenView& screen, int64_t vocab) {
  check_sizes(screen, vocab);
  check_tokens_of_sets(screen, vocab);
}

TokenPlaces::TokenPlaces(const ScreenView& screen, int64_t vocab)
    : begin_(static_cast<size_t>(vocab) + 1), place_(static_cast<size_t>(screen.start[screen.clusters])) {
  cluster_.reserve(place_.size());
  for (int32_t t = 0; t < screen.clusters; ++t) {
    for (int32_t place = screen.start[t]; place < screen.start[t + 1]; ++place) {
      cluster_.push_back(t);
      ++begin_[screen.token[place] + 1];
    }
  }
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  std::vector<int32_t> next = begin_;
  for (int32_t place = 0; place < screen.start[screen.clusters]; ++place) {
    place_[next[screen.token[place]]++] = place;
  }
}

}  // namespace sharpbeam
