#include "output/screen_view.h"

#include <numeric>
#include <stdexcept>
#include <string>

namespace sharpbeam {
namespace {

void check_sizes(const ScreenView& screen, int64_t vocab) {
  if (screen.clusters < 1) throw std::invalid_argument("a screen of no clusters; there must be at least 1");
  if (screen.start[0] != 0) throw std::invalid_argument("start[0] must be 0");
  for (int64_t t = 0; t < screen.clusters; ++t) {
    if (screen.start[t + 1] <= screen.start[t]) {
      throw std::invalid_argument("start[" + std::to_string(t + 1) + "] is " + std::to_string(screen.start[t + 1]) +
                                  "; it must be above start[" + std::to_string(t) + "], each cluster has a word");
    }
  }
  if (screen.doubt_k < 0 || screen.doubt_k > vocab) {
    throw std::invalid_argument("doubt_k is " + std::to_string(screen.doubt_k) + "; it must be from 0 to " +
                                std::to_string(vocab));
  }
  if (screen.tail != nullptr && screen.pieces < 1) {
    throw std::invalid_argument("a tail of no pieces; there must be at least 1");
  }
  if (screen.doubt_k > 0 && screen.tail == nullptr) {
    throw std::invalid_argument("doubt_k is " + std::to_string(screen.doubt_k) + "; it must be 0 without a tail");
  }
}

void check_words(const ScreenView& screen, int64_t vocab) {
  for (int64_t t = 0; t < screen.clusters; ++t) {
    int64_t last = -1;
    for (int64_t i = screen.start[t]; i < screen.start[t + 1]; ++i) {
      if (screen.token[i] <= last || screen.token[i] >= vocab) {
        throw std::invalid_argument("token[" + std::to_string(i) + "] is " + std::to_string(screen.token[i]) +
                                    "; the words of a cluster must ascend, from 0 to " + std::to_string(vocab - 1));
      }
      last = screen.token[i];
    }
  }
}

}  // namespace

void check_screen(const ScreenView& screen, int64_t vocab) {
  check_sizes(screen, vocab);
  check_words(screen, vocab);
}

WordPlaces::WordPlaces(const ScreenView& screen, int64_t vocab)
    : begin_(static_cast<size_t>(vocab) + 1), at_(static_cast<size_t>(screen.start[screen.clusters])) {
  cluster_.reserve(at_.size());
  for (int32_t t = 0; t < screen.clusters; ++t) {
    for (int32_t at = screen.start[t]; at < screen.start[t + 1]; ++at) {
      cluster_.push_back(t);
      ++begin_[screen.token[at] + 1];
    }
  }
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  std::vector<int32_t> next = begin_;
  for (int32_t at = 0; at < screen.start[screen.clusters]; ++at) at_[next[screen.token[at]]++] = at;
}

}  // namespace sharpbeam
