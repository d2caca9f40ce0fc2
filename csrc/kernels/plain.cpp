#include "kernels/plain.h"

#include <algorithm>
#include <cmath>

namespace quickbeam {
namespace {

float logistic(float x) { return 1.0f / (1.0f + std::exp(-x)); }

void tanh_all(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = std::tanh(x[i]);
}

void sigmoid_all(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = logistic(x[i]);
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
    next[d] = f * cell[d] + i * g;
    output[d] = o * std::tanh(next[d]);
  }
}

void attend_mlp(const float* query, const float* keys, const float* weight, float* scores, int64_t positions,
                int64_t dim) {
  for (int64_t s = 0; s < positions; ++s, keys += dim) {
    scores[s] = 0.0f;
    for (int64_t i = 0; i < dim; ++i) scores[s] += weight[i] * std::tanh(keys[i] + query[i]);
  }
}

void softmax(float* x, int64_t n) {
  const float top = *std::max_element(x, x + n);
  float total = 0.0f;
  for (int64_t i = 0; i < n; ++i) total += x[i] = std::exp(x[i] - top);
  for (int64_t i = 0; i < n; ++i) x[i] /= total;
}

}  // namespace

const Kernels& plain_kernels() {
  static const Kernels table = [] {
    Kernels result = kernels();
    result.name = "plain";
    result.tanh = tanh_all;
    result.sigmoid = sigmoid_all;
    result.gru = gru;
    result.lstm = lstm;
    result.attend_mlp = attend_mlp;
    result.softmax = softmax;
    return result;
  }();
  return table;
}

}  // namespace quickbeam
