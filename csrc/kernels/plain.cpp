#include "kernels/plain.h"

#include <algorithm>
#include <cmath>

namespace sharpbeam {
namespace {

double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }

void tanh_all(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(std::tanh(double{x[i]}));
}

void sigmoid_all(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(logistic(x[i]));
}

void gru(const float* input, const float* hidden, const float* state, float* next, int64_t dim) {
  for (int64_t i = 0; i < dim; ++i) {
    const double r = logistic(input[i] + hidden[i]), z = logistic(input[dim + i] + hidden[dim + i]);
    const double n = std::tanh(input[2 * dim + i] + r * hidden[2 * dim + i]);
    next[i] = static_cast<float>(n + z * (state[i] - n));
  }
}

void lstm(const float* input, const float* hidden, const float* cell, float* next, float* output, int64_t dim) {
  for (int64_t d = 0; d < dim; ++d) {
    const auto gate = [=](int64_t k) { return double{input[k * dim + d] + hidden[k * dim + d]}; };
    const double i = logistic(gate(0)), f = logistic(gate(1)), g = std::tanh(gate(2)), o = logistic(gate(3));
    const double c = f * cell[d] + i * g;
    next[d] = static_cast<float>(c);
    output[d] = static_cast<float>(o * std::tanh(c));
  }
}

void mlp_keys(const float* x, double* keys, int64_t n) { std::copy_n(x, n, keys); }

void mlp_scores(const double* query, const double* keys, const double* weight, float* scores, int64_t positions,
                int64_t dim) {
  for (int64_t s = 0; s < positions; ++s, keys += dim) {
    double total = 0.0;
    for (int64_t i = 0; i < dim; ++i) total += weight[i] * std::tanh(keys[i] + query[i]);
    scores[s] = static_cast<float>(total);
  }
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
    result.mlp_keys = mlp_keys;
    result.mlp_scores = mlp_scores;
    return result;
  }();
  return table;
}

}  // namespace sharpbeam
