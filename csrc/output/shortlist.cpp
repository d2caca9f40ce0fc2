#include "output/shortlist.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "output/words.h"

namespace sharpbeam {

ShortlistRun::ShortlistRun(Array weight, Array bias, int64_t vocab, int64_t dim, const Kernels& table)
    : weight_(std::move(weight)), bias_(std::move(bias)), vocab_(vocab), dim_(dim), table_(&table) {
  check_sizes(vocab, dim);
}

void ShortlistRun::admit(int32_t request, const int32_t* words, int64_t count) {
  if (sets_.count(request) != 0) {
    throw std::invalid_argument("request " + std::to_string(request) + " is there already; evict it first");
  }
  if (count < 1) throw std::invalid_argument("request " + std::to_string(request) + " has no words; give it one");
  check_words(words, count, "a request");
  Set set;
  if (!spare_.empty()) {
    set = std::move(spare_.back());
    spare_.pop_back();
  }
  set.words.assign(words, words + count);
  pack(set);
  logits_.reserve(kRowsAtOnce * round_up(count, kLanes));
  sets_.emplace(request, std::move(set));
  spare_.reserve(sets_.size());  // so that `evict` need not allocate
}

void ShortlistRun::pack(Set& set) const {
  const int64_t count = set.size();
  set.packed.reserve(packed_size(dim_, count));
  set.bias.reserve(round_up(count, kPanel));
  for (int64_t first = 0; first < count; first += kPanel) {
    float* panel = set.packed.get() + first * dim_;
    const int64_t columns = std::min<int64_t>(kPanel, count - first);
    if (columns < kPanel) std::fill(panel, panel + kPanel * dim_, 0.0f);
    for (int64_t from = 0; from < dim_; from += kLanes) {  // a cache line of each word, into a block that stays near
      const int64_t to = std::min<int64_t>(from + kLanes, dim_);
      for (int64_t c = 0; c < columns; ++c) {
        const float* row = weight_.get() + set.words[first + c] * dim_;
        for (int64_t k = from; k < to; ++k) panel[k * kPanel + c] = row[k];
      }
    }
  }
  for (int64_t i = 0; i < count; ++i) set.bias.get()[i] = bias_.get()[set.words[i]];
}

void ShortlistRun::evict(const int32_t* request, int64_t count) {
  for (int64_t i = 0; i < count; ++i) find(request[i]);
  for (int64_t i = 0; i < count; ++i) {
    const auto at = sets_.find(request[i]);
    if (at == sets_.end()) continue;  // named twice
    spare_.push_back(std::move(at->second));
    sets_.erase(at);
  }
}

const ShortlistRun::Set& ShortlistRun::find(int32_t request) const {
  const auto at = sets_.find(request);
  if (at != sets_.end()) return at->second;
  throw std::invalid_argument("request is " + std::to_string(request) + ", which was not admitted or is evicted");
}

template <typename Visit>
void ShortlistRun::for_each_row(const float* hidden, const int32_t* request, int64_t rows, Visit visit) {
  for (int64_t first = 0; first < rows;) {
    const Set& set = find(request[first]);
    int64_t count = 1;
    while (count < kRowsAtOnce && first + count < rows && request[first + count] == request[first]) ++count;
    const int64_t stride = round_up(set.size(), kLanes);
    table_->gemm(set.packed.get(), set.bias.get(), hidden + first * dim_, dim_, logits_.get(), stride, count, dim_,
                 set.size());
    for (int64_t r = 0; r < count; ++r) visit(first + r, set, logits_.get() + r * stride);
    first += count;
  }
}

template <typename Visit>
void ShortlistRun::for_each_list(const float* hidden, const int32_t* words, const int32_t* start, int64_t rows,
                                 Visit visit) {
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t count = start[row + 1] - start[row];
    check_words(words + start[row], count, "a row");
    logits_.reserve(round_up(count, kLanes));
    table_->gather_dot(weight_.get(), bias_.get(), hidden + row * dim_, words + start[row], count, dim_, logits_.get());
    visit(row, words + start[row], count, logits_.get());
  }
}

void ShortlistRun::rank_row(float* logits, const int32_t* words, int64_t count, int64_t k, float* log_prob,
                            int32_t* token) const {
  const int64_t found = std::min(k, count);
  if (found > 0) rank(*table_, logits, words, count, table_->log_sum_exp(logits, count), found, log_prob, token);
  std::fill(log_prob + found, log_prob + k, kNever);
  std::fill(token + found, token + k, 0);
}

float ShortlistRun::find_token(const float* logits, const int32_t* words, int64_t count, int32_t token) const {
  const int32_t* at = std::lower_bound(words, words + count, token);
  const bool inside = at != words + count && *at == token;
  return inside ? logits[at - words] - table_->log_sum_exp(logits, count) : kNever;
}

void ShortlistRun::check_words(const int32_t* words, int64_t count, const char* of) const {
  for (int64_t i = 0; i < count; ++i) {
    if (words[i] < 0 || words[i] >= vocab_ || (i > 0 && words[i] <= words[i - 1])) {
      throw std::invalid_argument("word " + std::to_string(i) + " of " + of + " is " + std::to_string(words[i]) +
                                  "; the words must ascend, from 0 to " + std::to_string(vocab_ - 1));
    }
  }
}

void ShortlistRun::topk(const float* hidden, const int32_t* request, int64_t rows, int64_t k, float* log_prob,
                        int32_t* token) {
  check_k(k, vocab_);
  for_each_row(hidden, request, rows, [&](int64_t row, const Set& set, float* logits) {
    rank_row(logits, set.words.data(), set.size(), k, log_prob + row * k, token + row * k);
  });
}

void ShortlistRun::log_prob(const float* hidden, const int32_t* request, const int32_t* token, int64_t rows,
                            float* log_prob) {
  check_tokens(token, rows, vocab_);
  for_each_row(hidden, request, rows, [&](int64_t row, const Set& set, const float* logits) {
    log_prob[row] = find_token(logits, set.words.data(), set.size(), token[row]);
  });
}

void ShortlistRun::topk_among(const float* hidden, const int32_t* words, const int32_t* start, int64_t rows, int64_t k,
                              float* log_prob, int32_t* token) {
  check_k(k, vocab_);
  for_each_list(hidden, words, start, rows, [&](int64_t row, const int32_t* own, int64_t count, float* logits) {
    rank_row(logits, own, count, k, log_prob + row * k, token + row * k);
  });
}

void ShortlistRun::log_prob_among(const float* hidden, const int32_t* words, const int32_t* start, const int32_t* token,
                                  int64_t rows, float* log_prob) {
  check_tokens(token, rows, vocab_);
  for_each_list(hidden, words, start, rows, [&](int64_t row, const int32_t* own, int64_t count, const float* logits) {
    log_prob[row] = find_token(logits, own, count, token[row]);
  });
}

}  // namespace sharpbeam
