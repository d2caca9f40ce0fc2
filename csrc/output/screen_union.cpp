#include "output/screen_union.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "linear/panels.h"
#include "output/scratch.h"

namespace sharpbeam {
namespace {

struct Scratch {
  Buffer scores;              // [kRowsAtOnce, clusters]
  std::vector<uint8_t> mask;  // [vocab, padded to words] all zero between calls
  std::vector<int32_t> set;   // the union, ascending
  Buffer packed, bias;        // its rows, in panels, and its biases
  Buffer logits;              // [rows, union]
};

constexpr int64_t kWord = sizeof(uint64_t);

// The places of the marks [size], ascending, into `found`; the marks are cleared. Returns how many there are.
int64_t compact(uint8_t* mask, int64_t size, int32_t* found) {
  int64_t count = 0;
  for (int64_t first = 0; first < size; first += kWord) {
    uint64_t marks;
    std::memcpy(&marks, mask + first, sizeof marks);
    if (marks == 0) continue;
    for (int64_t i = first; i < first + kWord; ++i) {
      found[count] = static_cast<int32_t>(i);
      count += mask[i];
    }
    std::memset(mask + first, 0, sizeof marks);
  }
  return count;
}

}  // namespace

ScreenUnionLayer::ScreenUnionLayer(Array weight, const float* bias, int64_t vocab, int64_t dim,
                                   const ScreenView& screen, const Kernels& table)
    : matrix_(std::move(weight), bias, vocab, dim, table) {
  check_screen(screen, vocab);
  clusters_ = Float32Matrix(screen.weight, screen.clusters, dim, dim, screen.bias);
  start_.assign(screen.start, screen.start + screen.clusters + 1);
  token_.assign(screen.token, screen.token + screen.start[screen.clusters]);
}

TokenSet ScreenUnionLayer::unite(const LayerRows& rows) const {
  Scratch& own = thread_scratch<Scratch>();
  const Kernels& table = matrix_.table();
  const int64_t stride = round_up(clusters_.out(), kLanes), marks = round_up(vocab(), kWord);
  if (static_cast<int64_t>(own.mask.size()) < marks) own.mask.resize(static_cast<size_t>(marks));
  for (int64_t first = 0; first < rows.rows; first += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, rows.rows - first);
    float* scores = reserved(own.scores, count * stride);
    clusters_.matmul(table, rows.hidden + first * dim(), dim(), scores, stride, count);
    for (int64_t r = 0; r < count; ++r) {
      float best;
      int32_t cluster;
      table.top_k(scores + r * stride, clusters_.out(), 1, &best, &cluster);
      const size_t t = static_cast<size_t>(cluster);
      for (int32_t i = start_[t]; i < start_[t + 1]; ++i)
        own.mask[static_cast<size_t>(token_[static_cast<size_t>(i)])] = 1;
    }
  }
  int32_t* set = reserved(own.set, marks + 1);
  return {set, static_cast<size_t>(compact(own.mask.data(), marks, set))};
}

template <typename Visit>
void ScreenUnionLayer::for_each_row(const LayerRows& rows, Visit visit) const {
  if (rows.rows == 0) return;
  const TokenSet set = unite(rows);
  Scratch& own = thread_scratch<Scratch>();
  const int64_t size = static_cast<int64_t>(set.size()), stride = round_up(size, kPanel);
  float *packed = reserved(own.packed, packed_size(dim(), size)), *bias = reserved(own.bias, stride);
  float* logits = reserved(own.logits, rows.rows * stride);
  pack_tokens(matrix_.row(0), matrix_.bias(), dim(), set, packed, bias);
  parallel_panels(size, dim() * static_cast<int64_t>(sizeof(float)), rows.rows, [&](int64_t first, int64_t out) {
    matrix_.table().gemm(packed + first * dim(), bias + first, rows.hidden, dim(), logits + first, stride, rows.rows,
                         dim(), out);
  });
  for (int64_t r = 0; r < rows.rows; ++r) visit(r, set, logits + r * stride);
}

void ScreenUnionLayer::topk(const LayerRows& rows, int64_t k, float* log_prob, int32_t* token) const {
  check_k(k, vocab());
  for_each_row(rows, [&](int64_t row, TokenSet set, float* logits) {
    rank_set(matrix_.table(), logits, set, k, log_prob + row * k, token + row * k);
  });
}

void ScreenUnionLayer::log_prob(const LayerRows& rows, const int32_t* token, float* log_prob) const {
  check_tokens(token, rows.rows, vocab());
  for_each_row(rows, [&](int64_t row, TokenSet set, const float* logits) {
    log_prob[row] = log_prob_in_set(matrix_.table(), logits, set, token[row]);
  });
}

}  // namespace sharpbeam
