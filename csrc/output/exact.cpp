#include "output/exact.h"

#include <utility>

#include "core/team.h"
#include "output/output_matrix.h"
#include "output/scratch.h"

namespace sharpbeam {
namespace {

struct Scratch {
  Buffer logits;
};

}  // namespace

ExactLayer::ExactLayer(Array weight, Array bias, int64_t vocab, int64_t dim, const Kernels& table, bool deferred)
    : weight_(std::move(weight)), bias_(std::move(bias)), vocab_(vocab), dim_(dim), table_(&table) {
  check_sizes(vocab, dim);
  if (deferred) return;
  matrix();
  weight_.reset();
  bias_.reset();
}

const Float32Matrix& ExactLayer::matrix() const {
  std::call_once(packed_, [&] { matrix_ = Float32Matrix(weight_.get(), vocab_, dim_, dim_, bias_.get()); });
  return matrix_;
}

template <typename Visit>
void ExactLayer::for_each_row(const float* hidden, int64_t rows, Visit visit) const {
  const Float32Matrix& packed = matrix();
  const int64_t stride = round_up(vocab(), kLanes);
  for_each_block(rows, stride, [&](int64_t first, int64_t count) {
    float* logits = reserved(thread_scratch<Scratch>().logits, count * stride);
    packed.matmul(*table_, hidden + first * dim(), dim(), logits, stride, count);
    parallel_for(count, [&](int64_t r) { visit(first + r, logits + r * stride); });
  });
}

void ExactLayer::rank(const LayerRows& rows, int64_t k, bool normalize, float* log_prob, int32_t* token) const {
  check_k(k, vocab());
  for_each_row(rows.hidden, rows.rows, [&](int64_t row, float* logits) {
    // Normalized before they are ranked: two logits may differ where their log probabilities are equal.
    const float total = normalize ? table_->log_sum_exp(logits, vocab()) : 0.0f;
    rows.note(row, total, 0.0f);
    for (int64_t v = 0; normalize && v < vocab(); ++v) logits[v] -= total;
    rank_logits(*table_, logits, vocab(), k, log_prob + row * k, token + row * k);
  });
}

void ExactLayer::score(const LayerRows& rows, const int32_t* token, bool normalize, float* log_prob) const {
  check_tokens(token, rows.rows, vocab());
  if (!normalize) {
    for (int64_t row = 0; row < rows.rows; ++row) {
      log_prob[row] = matrix().element(*table_, rows.hidden + row * dim(), token[row]);
    }
    return;
  }
  for_each_row(rows.hidden, rows.rows, [&](int64_t row, const float* logits) {
    log_prob[row] = logits[token[row]] - table_->log_sum_exp(logits, vocab());
  });
}

}  // namespace sharpbeam
