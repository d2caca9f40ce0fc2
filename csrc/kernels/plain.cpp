#include "kernels/plain.h"

#include <algorithm>
#include <cmath>

namespace sharpbeam {
namespace {

float logistic(float x) { return 1.0f / (1.0f + std::exp(-x)); }

void tanh_all(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = std::tanh(x[i]);
}

void gru(const float* input, const float* hidden, const float* state, float* next, int64_t dim) {
  for (int64_t i = 0; i < dim; ++i) {
    const float r = logistic(input[i] + hidden[i]), z = logistic(input[dim + i] + hidden[dim + i]);
    const float n = std::tanh(input[2 * dim + i] + r * hidden[2 * dim + i]);
    next[i] = n + z * (state[i] - n);
  }
}

void lstm(const float* input, const float* hidden, const float* cell, float* next, float* output, int64_t dim) {
  for (int64_t d = 0; d < dim; ++d) {
    const auto gate = [=](int64_t k) { return input[k * dim + d] + hidden[k * dim + d]; };
    const float i = logistic(gate(0)), f = logistic(gate(1)), g = std::tanh(gate(2)), o = logistic(gate(3));
    const float c = f * cell[d] + i * g;
    next[d] = c;
    output[d] = o * std::tanh(c);
  }
}

void mlp_keys(const float* x, double* keys, int64_t n) { std::copy_n(x, n, keys); }

void mlp_scores(const double* query, const double* keys, const double* weight, float* scores, int64_t positions,
                int64_t dim) {
  for (int64_t s = 0; s < positions; ++s, keys += dim) {
    float total = 0.0f;
    for (int64_t i = 0; i < dim; ++i) {
      total += static_cast<float>(weight[i]) * std::tanh(static_cast<float>(keys[i] + query[i]));
    }
    scores[s] = total;
  }
}

}  // namespace

const Kernels& plain_kernels() {
  static const Kernels table = [] {
    Kernels result = kernels();
    result.name = "plain";
    result.tanh = tanh_all;
    result.gru = gru;
    result.lstm = lstm;
    result.mlp_keys = mlp_keys;
    result.mlp_scores = mlp_scores;
    return result;
  }();
  return table;
}

}  // namespace sharpbeam
