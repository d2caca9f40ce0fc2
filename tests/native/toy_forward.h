// A model whose answers can be recomputed token by token, for the tests of searches.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "search/forward.h"

namespace sharpbeam {

constexpr int32_t kEos = 2;
constexpr int64_t kVocab = 40, kWidth = 3;
constexpr float kImpossible = -std::numeric_limits<float>::infinity();

// The state is a hash of all tokens so far; the log probability of a token is a hash of it and the state. Many are
// equal, and some are impossible.
struct ToyForward : Forward {
  ToyForward() { hidden.reserve(1000); }
  int64_t dim() const override { return kWidth; }

  const float* step(const int32_t*, const int32_t* state, const int32_t* token, int64_t rows,
                    int32_t* states) override {
    hidden.resize(static_cast<size_t>(rows * kWidth));
    for (int64_t row = 0; row < rows; ++row) {
      states[row] = after(state[row], token[row]);
      const double angle = 0.1 * (states[row] % 100);  // rows are alike now and then
      hidden[row * kWidth] = static_cast<float>(states[row]);
      hidden[row * kWidth + 1] = static_cast<float>(5000 * std::cos(angle));
      hidden[row * kWidth + 2] = static_cast<float>(5000 * std::sin(angle));
    }
    return hidden.data();
  }

  void topk(const float* given, const int32_t*, int64_t rows, int64_t k, const BeamView*, const Estimates*,
            float* log_prob, int32_t* token) override {
    for (int64_t row = 0; row < rows; ++row) {
      const auto state = static_cast<int32_t>(given[row * kWidth]);
      for (int32_t id = 0; id < kVocab; ++id) order[id] = id;
      std::sort(order, order + kVocab, [&](int32_t a, int32_t b) {
        const float x = value(state, a), y = value(state, b);
        return x != y ? x > y : a < b;
      });
      for (int64_t i = 0; i < k; ++i) {
        token[row * k + i] = order[i];
        log_prob[row * k + i] = value(state, order[i]);
      }
    }
    if (--sound == 0) log_prob[0] = std::numeric_limits<float>::quiet_NaN();
  }

  void log_prob(const float* given, const int32_t*, int64_t rows, const int32_t* token, const Estimates*,
                float* log_prob) override {
    for (int64_t row = 0; row < rows; ++row)
      log_prob[row] = value(static_cast<int32_t>(given[row * kWidth]), token[row]);
  }

  void retain(const int32_t*, int64_t count) override { retained = count; }

  static int32_t after(int32_t state, int32_t token) { return (31 * state + 7 * token + 3) % 9973; }

  float value(int32_t state, int32_t token) const {
    if (token == kEos) return -2.0f + ends;
    const uint32_t mixed = static_cast<uint32_t>(state * 2654435761u + static_cast<uint32_t>(token) * 40503u) >> 7;
    return mixed % 100 < impossible ? kImpossible : -0.25f * static_cast<float>(1 + mixed % 23);
  }

  float ends = 0.0f;        // how likely eos is
  uint32_t impossible = 0;  // of a hundred
  int64_t sound = -1;       // calls of topk until one gives what is no number
  int64_t retained = 0;
  std::vector<float> hidden;
  int32_t order[kVocab];
};

SearchOptions options_of(int64_t beam, int64_t max_length) {
  SearchOptions options;
  options.return_scores = true;
  options.eos = kEos;
  options.vocab = kVocab;
  options.beam_size = beam;
  options.num_hypotheses = 2;
  options.max_length = max_length;
  return options;
}

}  // namespace sharpbeam
