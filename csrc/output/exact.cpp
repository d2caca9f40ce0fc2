#include "output/exact.h"

#include "core/buffer.h"
#include "core/team.h"
#include "output/words.h"

namespace sharpbeam {
namespace {

// The scratch of this thread: it grows to what the largest output layer needs, then nothing is allocated any more.
float* scratch(int64_t size) {
  thread_local Buffer buffer;
  buffer.reserve(size);
  return buffer.get();
}

}  // namespace

ExactLayer::ExactLayer(const float* weight, const float* bias, int64_t vocab, int64_t dim, const Kernels& table)
    : table_(&table) {
  check_sizes(vocab, dim);
  matrix_ = Float32Matrix(weight, vocab, dim, dim, bias);
}

template <typename Visit>
void ExactLayer::for_each_row(const float* hidden, int64_t rows, Visit visit) const {
  const int64_t stride = round_up(vocab(), kLanes);
  for_each_block(rows, stride, [&](int64_t first, int64_t count) {
    float* logits = scratch(count * stride);
    matrix_.matmul(*table_, hidden + first * dim(), dim(), logits, stride, count);
    parallel_for(count, [&](int64_t r) { visit(first + r, logits + r * stride); });
  });
}

void ExactLayer::topk(const float* hidden, int64_t rows, int64_t k, bool normalise, float* log_prob,
                      int32_t* token) const {
  check_k(k, vocab());
  for_each_row(hidden, rows, [&](int64_t row, float* logits) {
    // Normalised before they are ranked: two logits may differ where their log probabilities are equal.
    if (!normalise) return rank_raw(*table_, logits, vocab(), k, log_prob + row * k, token + row * k);
    const float total = table_->log_sum_exp(logits, vocab());
    for (int64_t v = 0; v < vocab(); ++v) logits[v] -= total;
    table_->top_k(logits, vocab(), k, log_prob + row * k, token + row * k);
  });
}

void ExactLayer::log_prob(const float* hidden, const int32_t* token, int64_t rows, bool normalise,
                          float* log_prob) const {
  check_tokens(token, rows, vocab());
  if (!normalise) {
    for (int64_t row = 0; row < rows; ++row) {
      log_prob[row] = matrix_.element(*table_, hidden + row * dim(), token[row]);
    }
    return;
  }
  for_each_row(hidden, rows, [&](int64_t row, const float* logits) {
    log_prob[row] = logits[token[row]] - table_->log_sum_exp(logits, vocab());
  });
}

}  // namespace sharpbeam
