#include "output/output_matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/team.h"
#include "linear/panels.h"
#include "output/scratch.h"

namespace sharpbeam {
namespace {

constexpr float kLargest = 1e12f;
constexpr int64_t kTogether = 1024;  // tokens of a pass that are asked for in one call, in which they are prefetched

struct Scratch {
  Buffer logits;
};

// By blocks, in which the compiler can look at several values at a time.
void check_values(const float* x, int64_t n, const char* name) {
  constexpr int64_t kBlock = 4096;
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t end = std::min(n, first + kBlock);
    int32_t wrong = 0;
    for (int64_t i = first; i < end; ++i) wrong |= !(std::fabs(x[i]) <= kLargest);
    for (int64_t i = first; wrong && i < end; ++i) {
      if (!(std::fabs(x[i]) <= kLargest)) {
        throw std::invalid_argument(std::string(name) + " holds " + std::to_string(x[i]) +
                                    "; values must be finite and at most 1e12 in size");
      }
    }
  }
}

}  // namespace

void check_sizes(int64_t vocab, int64_t dim) {
  if (vocab < 1 || dim < 1) {
    throw std::invalid_argument("weight has the shape [" + std::to_string(vocab) + ", " + std::to_string(dim) +
                                "]; both sizes must be at least 1");
  }
}

void check_k(int64_t k, int64_t vocab) {
  if (k < 1 || k > vocab) {
    throw std::invalid_argument("k is " + std::to_string(k) + "; it must be from 1 to the vocabulary size, " +
                                std::to_string(vocab));
  }
}

void check_tokens(const int32_t* token, int64_t rows, int64_t vocab) {
  for (int64_t row = 0; row < rows; ++row) {
    if (token[row] < 0 || token[row] >= vocab) {
      throw std::invalid_argument("token[" + std::to_string(row) + "] is " + std::to_string(token[row]) +
                                  "; it must be from 0 to " + std::to_string(vocab - 1));
    }
  }
}

OutputMatrix::OutputMatrix(Array weight, const float* bias, int64_t vocab, int64_t dim, const Kernels& table)
    : weight_(std::move(weight)), file_(weight_.get(), vocab, dim), vocab_(vocab), dim_(dim), table_(&table) {
  check_sizes(vocab, dim);
  check_values(bias, vocab, "bias");
  bias_.reserve(vocab);
  std::copy_n(bias, vocab, bias_.get());
}

void OutputMatrix::check_row(int64_t token) const { check_values(row(token), dim_, "weight"); }

double OutputMatrix::norm(const float* x) const {
  constexpr int64_t kChains = 8;  // independent sums, which the compiler can vectorize
  double square[kChains] = {};
  int64_t k = 0;
  for (; k + kChains <= dim_; k += kChains)
    for (int64_t c = 0; c < kChains; ++c) square[c] += static_cast<double>(x[k + c]) * x[k + c];
  for (; k < dim_; ++k) square[0] += static_cast<double>(x[k]) * x[k];
  return std::sqrt(std::accumulate(square, square + kChains, 0.0));
}

void OutputMatrix::logits(const float* hidden, const int32_t* tokens, int64_t count, float* out) const {
  logits_of_rows(hidden, 1, tokens, count, out, count);
}

void OutputMatrix::logits_of_rows(const float* hidden, int64_t rows, const int32_t* tokens, int64_t count, float* out,
                                  int64_t stride) const {
  if (file_) return logits_from_file(hidden, rows, tokens, count, out, stride);
  table_->gather_dot(weight_.get(), bias_.get(), hidden, rows, tokens, count, dim_, out, stride);
}

void OutputMatrix::logits_from_file(const float* hidden, int64_t rows, const int32_t* tokens, int64_t count, float* out,
                                    int64_t stride) const {
  thread_local Buffer buffer;
  buffer.reserve(kLanes * dim_);
  float bias[kLanes];  // of the tokens in `buffer`
  int32_t place[kLanes];
  std::iota(place, place + kLanes, 0);
  for (int64_t first = 0; first < count; first += kLanes) {
    const int64_t some = std::min<int64_t>(kLanes, count - first);
    for (int64_t i = 0; i < some; ++i) {
      const int64_t token = tokens[first + i];
      file_.read(token, buffer.get() + i * dim_);
      bias[i] = bias_.get()[token];
    }
    table_->gather_dot(buffer.get(), bias, hidden, rows, place, some, dim_, out + first, stride);
  }
}

void OutputMatrix::all_logits(const float* hidden, float* out) const {
  int32_t tokens[kTogether];
  for (int64_t first = 0; first < vocab_; first += kTogether) {
    const int64_t count = std::min(kTogether, vocab_ - first);
    std::iota(tokens, tokens + count, static_cast<int32_t>(first));
    logits(hidden, tokens, count, out + first);
  }
}

void OutputMatrix::logit_of_each(const float* hidden, const int32_t* token, int64_t rows, float* out) const {
  for (int64_t row = 0; row < rows; ++row) logits(hidden + row * dim_, token + row, 1, out + row);
}

float OutputMatrix::log_total(const float* hidden, float* out) const {
  all_logits(hidden, out);
  return table_->log_sum_exp(out, vocab_);
}

void OutputMatrix::log_totals(const float* hidden, int64_t rows, float* total) const {
  for_each_block(rows, vocab_, [&](int64_t first, int64_t count) {
    float* all = reserved(thread_scratch<Scratch>().logits, count * vocab_);
    parallel_panels(vocab_, dim_ * static_cast<int64_t>(sizeof(float)), count, [&](int64_t from, int64_t columns) {
      int32_t token[kTogether];
      for (int64_t at = from; at < from + columns; at += kTogether) {
        const int64_t some = std::min(kTogether, from + columns - at);
        std::iota(token, token + some, static_cast<int32_t>(at));
        logits_of_rows(hidden + first * dim_, count, token, some, all + at, vocab_);
      }
    });
    parallel_for(count, [&](int64_t r) { total[first + r] = table_->log_sum_exp(all + r * vocab_, vocab_); });
  });
}

float OutputMatrix::rank_all(const float* hidden, bool normalize, int64_t k, float* all, float* log_prob,
                             int32_t* token) const {
  if (normalize) {
    const float total = log_total(hidden, all);
    rank_log_probs(*table_, all, nullptr, vocab_, total, k, log_prob, token);
    return total;
  }
  all_logits(hidden, all);
  rank_logits(*table_, all, vocab_, k, log_prob, token);
  return 0.0f;
}

void rank_log_probs(const Kernels& table, float* logits, const int32_t* tokens, int64_t count, float total, int64_t k,
                    float* log_prob, int32_t* token) {
  // Normalized before they are ranked: two logits may differ where their log probabilities are equal.
  for (int64_t i = 0; i < count; ++i) logits[i] -= total;
  rank_logits(table, logits, count, k, log_prob, token);
  for (int64_t i = 0; tokens != nullptr && i < k; ++i) token[i] = tokens[token[i]];
}

float bar_below(float logit, float total, double shift) {
  const double size = std::fabs(static_cast<double>(logit)) + std::fabs(static_cast<double>(total)) + std::fabs(shift);
  return -above(size * 0x1p-19 + 1e-30 - (static_cast<double>(logit) - shift));
}

void rank_logits(const Kernels& table, const float* logits, int64_t n, int64_t k, float* log_prob, int32_t* token) {
  table.top_k(logits, n, k, log_prob, token);
  if (log_prob[0] == -std::numeric_limits<float>::infinity()) log_prob[0] = std::numeric_limits<float>::quiet_NaN();
}

float above(double x) {
  const float near = static_cast<float>(x);
  return near >= x ? near : std::nextafter(near, std::numeric_limits<float>::infinity());
}

}  // namespace sharpbeam
