#include "output/scan.h"

#include <algorithm>

#include "core/team.h"
#include "output/candidates.h"

namespace sharpbeam {
namespace {

struct Scratch {
  Buffer logits, bytes;
  CandidateScratch candidates;
};

Scratch& scratch() {
  thread_local Scratch mine;
  return mine;
}

}  // namespace

ScanLayer::ScanLayer(Array weight, const float* bias, int64_t vocab, int64_t dim, const Kernels& table, float trust)
    : words_(std::move(weight), bias, vocab, dim, table),
      bytes_(vocab, dim),
      norm_(vocab),
      lost_(vocab),
      trust_(trust) {
  words_.read([&](int64_t v) {
    lost_.get()[v] = widened(bytes_.set_row(v, words_.row(v)));
    norm_.get()[v] = norm_of(words_, v);
  });
}

template <typename Visit>
void ScanLayer::for_each_row(const float* hidden, int64_t rows, Visit visit) const {
  const Kernels& table = words_.table();
  const int64_t stride = round_up(vocab(), kLanes), width = padded_int8(dim());
  Scratch& mine = scratch();
  for_each_block(rows, stride, [&](int64_t first, int64_t count) {
    mine.logits.reserve(count * stride);
    mine.bytes.reserve(count * width / static_cast<int64_t>(sizeof(float)) + 1);
    int8_t* bytes = reinterpret_cast<int8_t*>(mine.bytes.get());
    RoundedHidden row[kRowsAtOnce];
    float scale[kRowsAtOnce];
    for (int64_t r = 0; r < count; ++r) {
      row[r] = round_hidden(table, hidden + (first + r) * dim(), dim(), width, trust_, bytes + r * width);
      scale[r] = row[r].scale;
    }
    bytes_.matmul(table, words_.bias(), bytes, width, scale, mine.logits.get(), stride, count);
    parallel_for(count, [&](int64_t r) {
      CandidateScratch& candidates = scratch().candidates;  // of the thread that takes the row
      candidates.reserve(vocab());
      visit(first + r, row[r], mine.logits.get() + r * stride, candidates);
    });
  });
}

void ScanLayer::topk(const float* hidden, int64_t rows, int64_t k, bool normalise, float* log_prob, int32_t* token,
                     float* total, int32_t* rescored) const {
  check_k(k, vocab());
  for_each_row(hidden, rows, [&](int64_t at, const RoundedHidden& row, float* logits, CandidateScratch& room) {
    const float* x = hidden + at * dim();
    float* to = log_prob + at * k;
    rescored[at] = static_cast<int32_t>(vocab());
    if (!row.sound && !normalise) {
      words_.all_logits(x, logits);
      rank_raw(words_.table(), logits, vocab(), k, to, token + at * k);
      total[at] = 0.0f;
      return;
    }
    if (!row.sound) {
      exact_topk(words_, x, logits, k, to, token + at * k, total + at);
      return;
    }
    Candidates candidates(words_, x, logits, k, kRefined, room);
    total[at] = normalise ? candidates.total() : 0.0f;
    const Bound bound{norm_.get(), lost_.get(), row.by_norm, row.by_lost};
    rescored[at] = static_cast<int32_t>(candidates.best(bound, total[at], to, token + at * k));
  });
}

void ScanLayer::log_prob(const float* hidden, const int32_t* token, int64_t rows, bool normalise,
                         float* log_prob) const {
  check_tokens(token, rows, vocab());
  if (!normalise) {
    for (int64_t row = 0; row < rows; ++row) words_.logits(hidden + row * dim(), token + row, 1, log_prob + row);
    return;
  }
  for_each_row(hidden, rows, [&](int64_t at, const RoundedHidden& row, float* logits, CandidateScratch& room) {
    const float* x = hidden + at * dim();
    const float total =
        row.sound ? Candidates(words_, x, logits, 1, kRefined, room).total() : exact_total(words_, x, logits);
    words_.logits(x, token + at, 1, log_prob + at);
    log_prob[at] -= total;
  });
}

}  // namespace sharpbeam
