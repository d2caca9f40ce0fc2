#include "projections/screened.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace quickbeam {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr int64_t kMostRows = 48;  // rows whose cluster scores or logits are held at a time; no answer depends on it

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// What a call needs beside its results. It belongs to the thread, and grows to what the largest call needs.
struct Scratch {
  Buffer hidden;  // [kMostRows, dim] the rows of one cluster
  Buffer scores;  // [kMostRows, clusters or words]
  Buffer best;    // the best log probabilities of one row, and in `place` where they stand
  std::vector<int32_t> place;
  std::vector<int32_t> cluster;  // [rows]
  std::vector<int64_t> order;    // [rows] row numbers, cluster by cluster
  std::vector<int64_t> from;     // [vocab] where a word of the union is packed, -1 for the others
  std::vector<int32_t> words;    // of the union
  Buffer packed, bias;           // of the union
};

Scratch& scratch() {
  thread_local Scratch own;
  return own;
}

// |a - b|, the squares summed in kLanes lanes.
float distance(const float* a, const float* b, int64_t n) {
  float lanes[kLanes] = {}, total = 0.0f;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float gap = a[i + lane] - b[i + lane];
      lanes[lane] += gap * gap;
    }
  }
  for (; i < n; ++i) total += (a[i] - b[i]) * (a[i] - b[i]);
  for (int lane = 0; lane < kLanes; ++lane) total += lanes[lane];
  return std::sqrt(total);
}

void check(const ScreenView& screen, int64_t vocab, int64_t dim) {
  if (vocab < 1 || dim < 1 || screen.clusters < 1) {
    throw std::invalid_argument("a screen of " + std::to_string(screen.clusters) + " clusters over weight of shape [" +
                                std::to_string(vocab) + ", " + std::to_string(dim) +
                                "]; all three sizes must be at least 1");
  }
  if (screen.start[0] != 0) throw std::invalid_argument("start[0] must be 0");
  for (int64_t t = 0; t < screen.clusters; ++t) {
    if (screen.start[t + 1] <= screen.start[t]) {
      throw std::invalid_argument("start[" + std::to_string(t + 1) + "] is " + std::to_string(screen.start[t + 1]) +
                                  "; it must be above start[" + std::to_string(t) + "], each cluster has a word");
    }
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

ScreenedProjection::ScreenedProjection(const float* weight, const float* bias, int64_t vocab, int64_t dim,
                                       const ScreenView& screen, const Kernels& table)
    : vocab_(vocab), doubt_k_(screen.doubt_k), slope_(screen.slope), offset_(screen.offset), table_(&table) {
  check(screen, vocab, dim);
  check_words(screen, vocab);
  if (doubt_k_ < 0 || doubt_k_ > vocab) {
    throw std::invalid_argument("doubt_k is " + std::to_string(doubt_k_) + "; it must be from 0 to " +
                                std::to_string(vocab));
  }
  if (doubt_k_ > 0) {
    center_.reserve(screen.clusters * dim);
    std::copy(screen.center, screen.center + screen.clusters * dim, center_.get());
  }
  clusters_ = Matrix(screen.weight, screen.clusters, dim, dim, screen.bias);
  start_.assign(screen.start, screen.start + screen.clusters + 1);
  token_.assign(screen.token, screen.token + start_.back());
  panel_.assign(1, 0);
  for (int32_t t = 0; t < screen.clusters; ++t) {
    panel_.push_back(panel_.back() + round_up(size(t), kPanel) / kPanel);
    most_ = std::max(most_, size(t));
  }
  packed_.reserve(floats());
  packed_bias_.reserve(panel_.back() * kPanel);
  std::fill(packed_.get(), packed_.get() + floats(), 0.0f);
  std::fill(packed_bias_.get(), packed_bias_.get() + panel_.back() * kPanel, 0.0f);
  for (int32_t t = 0; t < screen.clusters; ++t) {
    for (int64_t i = 0; i < size(t); ++i) {
      const int64_t word = words(t)[i];
      float* to = packed_.get() + place(t, i);
      for (int64_t k = 0; k < dim; ++k) to[k * kPanel] = weight[word * dim + k];
      packed_bias_.get()[panel_[t] * kPanel + i] = bias[word];
    }
  }
}

void ScreenedProjection::assign(const float* hidden, int64_t rows, int32_t* cluster) const {
  const int64_t stride = round_up(clusters_.out(), kLanes);
  Buffer& scores = scratch().scores;
  scores.reserve(std::min(rows, kMostRows) * stride);
  for (int64_t first = 0; first < rows; first += kMostRows) {
    const int64_t count = std::min(kMostRows, rows - first);
    clusters_.multiply(*table_, hidden + first * dim(), dim(), scores.get(), stride, count);
    for (int64_t r = 0; r < count; ++r) {
      float best;
      table_->top_k(scores.get() + r * stride, clusters_.out(), 1, &best, cluster + first + r);
    }
  }
}

template <typename Visit>
void ScreenedProjection::for_each_row(const float* hidden, int64_t rows, Visit visit) const {
  Scratch& own = scratch();
  own.cluster.resize(rows);
  own.order.resize(rows);
  assign(hidden, rows, own.cluster.data());
  for (int64_t r = 0; r < rows; ++r) own.order[r] = r;
  std::sort(own.order.begin(), own.order.end(), [&](int64_t a, int64_t b) {
    return own.cluster[a] != own.cluster[b] ? own.cluster[a] < own.cluster[b] : a < b;
  });
  const int64_t stride = round_up(most_, kLanes);
  own.scores.reserve(std::min(rows, kMostRows) * stride);
  own.hidden.reserve(std::min(rows, kMostRows) * dim());
  for (int64_t first = 0; first < rows;) {
    const int32_t t = own.cluster[own.order[first]];
    int64_t count = 0;
    for (; count < kMostRows && first + count < rows && own.cluster[own.order[first + count]] == t; ++count) {
      const float* from = hidden + own.order[first + count] * dim();
      std::copy(from, from + dim(), own.hidden.get() + count * dim());
    }
    table_->multiply(packed_.get() + panel_[t] * kPanel * dim(), packed_bias_.get() + panel_[t] * kPanel,
                     own.hidden.get(), dim(), own.scores.get(), stride, count, dim(), size(t));
    for (int64_t r = 0; r < count; ++r) visit(own.order[first + r], t, own.scores.get() + r * stride);
    first += count;
  }
}

bool ScreenedProjection::rank(float* logits, int64_t count, const int32_t* names, int64_t k, float* log_prob,
                              int32_t* token, const float* hidden, int32_t cluster) const {
  Scratch& own = scratch();
  const int64_t found = std::min(std::max(k, doubt_k_), count), given = std::min(k, found);
  own.best.reserve(found);
  if (own.place.size() < static_cast<size_t>(found)) own.place.resize(found);
  // Normalised before they are ranked, as in the exact projection.
  const float total = table_->log_sum_exp(logits, count);
  for (int64_t i = 0; i < count; ++i) logits[i] -= total;
  table_->top_k(logits, count, found, own.best.get(), own.place.data());
  std::copy(own.best.get(), own.best.get() + given, log_prob);
  for (int64_t i = 0; i < given; ++i) token[i] = names[own.place[i]];
  std::fill(log_prob + given, log_prob + k, kNever);
  std::fill(token + given, token + k, 0);
  if (doubt_k_ == 0) return true;
  if (found < doubt_k_) return false;
  const float far = distance(hidden, center_.get() + cluster * dim(), dim());
  return own.best.get()[doubt_k_ - 1] + total - slope_ * far >= offset_;
}

void ScreenedProjection::check_k(int64_t k) const {
  if (k >= 1 && k <= vocab_) return;
  throw std::invalid_argument("k is " + std::to_string(k) + "; it must be from 1 to the vocabulary size, " +
                              std::to_string(vocab_));
}

void ScreenedProjection::topk(const float* hidden, int64_t rows, int64_t k, float* log_prob, int32_t* token,
                              bool* doubtful) const {
  check_k(k);
  for_each_row(hidden, rows, [&](int64_t row, int32_t t, float* logits) {
    doubtful[row] = !rank(logits, size(t), words(t), k, log_prob + row * k, token + row * k, hidden + row * dim(), t);
  });
}

void ScreenedProjection::log_prob(const float* hidden, const int32_t* token, int64_t rows, float* log_prob,
                                  bool* doubtful) const {
  for (int64_t row = 0; row < rows; ++row) {
    if (token[row] < 0 || token[row] >= vocab_) {
      throw std::invalid_argument("token[" + std::to_string(row) + "] is " + std::to_string(token[row]) +
                                  "; it must be from 0 to " + std::to_string(vocab_ - 1));
    }
  }
  for_each_row(hidden, rows, [&](int64_t row, int32_t t, float* logits) {
    float first;
    int32_t word;
    doubtful[row] = !rank(logits, size(t), words(t), 1, &first, &word, hidden + row * dim(), t);
    const int32_t *begin = words(t), *end = begin + size(t);
    const int32_t* at = std::lower_bound(begin, end, token[row]);
    log_prob[row] = at != end && *at == token[row] ? logits[at - begin] : kNever;
  });
}

void ScreenedProjection::topk_union(const float* hidden, int64_t rows, int64_t k, float* log_prob,
                                    int32_t* token) const {
  check_k(k);
  Scratch& own = scratch();
  own.cluster.resize(rows);
  assign(hidden, rows, own.cluster.data());
  own.from.assign(vocab_, -1);  // the mask, then its compaction
  for (int64_t r = 0; r < rows; ++r) {
    const int32_t t = own.cluster[r];
    for (int64_t i = 0; i < size(t); ++i) own.from[words(t)[i]] = place(t, i);
  }
  own.words.clear();
  for (int32_t word = 0; word < vocab_; ++word) {
    if (own.from[word] >= 0) own.words.push_back(word);
  }
  const int64_t count = static_cast<int64_t>(own.words.size()), panel = kPanel * dim();
  own.packed.reserve(packed_size(dim(), count));
  own.bias.reserve(round_up(count, kPanel));
  std::fill(own.packed.get(), own.packed.get() + packed_size(dim(), count), 0.0f);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t source = own.from[own.words[i]];
    const float* from = packed_.get() + source;
    float* to = own.packed.get() + i / kPanel * panel + i % kPanel;
    for (int64_t d = 0; d < dim(); ++d) to[d * kPanel] = from[d * kPanel];
    own.bias.get()[i] = packed_bias_.get()[source / panel * kPanel + source % panel];
  }
  const int64_t stride = round_up(count, kLanes);
  own.scores.reserve(std::min(rows, kMostRows) * stride);
  for (int64_t first = 0; first < rows; first += kMostRows) {
    const int64_t block = std::min(kMostRows, rows - first);
    table_->multiply(own.packed.get(), own.bias.get(), hidden + first * dim(), dim(), own.scores.get(), stride, block,
                     dim(), count);
    for (int64_t r = first; r < first + block; ++r) {
      rank(own.scores.get() + (r - first) * stride, count, own.words.data(), k, log_prob + r * k, token + r * k,
           hidden + r * dim(), own.cluster[r]);
    }
  }
}

}  // namespace quickbeam
