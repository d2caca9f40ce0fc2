#include "output/suppressed.h"

#include <algorithm>
#include <limits>

#include "output/words.h"

namespace sharpbeam {

SuppressedRun::SuppressedRun(LayerRun& layer, const int32_t* suppressed, int64_t count)
    : layer_(layer), banned_(static_cast<size_t>(layer.vocab()), false) {
  check_tokens(suppressed, count, vocab());
  for (int64_t i = 0; i < count; ++i) banned_[static_cast<size_t>(suppressed[i])] = true;
  most_ = std::count(banned_.begin(), banned_.end(), true);
}

void SuppressedRun::topk(const float* hidden, const int32_t* request, int64_t rows, int64_t k, float* log_prob,
                         int32_t* token) {
  const int64_t width = std::max(k, std::min(k + most_, vocab()));  // a k above the vocabulary is the layer's to refuse
  log_prob_.reserve(rows * width);
  token_.resize(static_cast<size_t>(rows * width));
  layer_.topk(hidden, request, rows, width, log_prob_.get(), token_.data());
  for (int64_t row = 0; row < rows; ++row, log_prob += k, token += k) {
    const float* given = log_prob_.get() + row * width;
    const int32_t* words = token_.data() + row * width;
    const auto banned = [&](int64_t i) { return banned_[static_cast<size_t>(words[i])]; };
    int64_t found = 0;
    for (int64_t i = 0; i < width && found < k; ++i) {
      if (banned(i)) continue;
      log_prob[found] = given[i];
      token[found++] = words[i];
    }
    for (int64_t i = 0; found < k; ++i) {
      if (!banned(i)) continue;
      log_prob[found] = -std::numeric_limits<float>::infinity();
      token[found++] = words[i];
    }
  }
}

}  // namespace sharpbeam
