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

void ScanLayer::rank(const LayerRows& rows, int64_t k, bool normalise, float* log_prob, int32_t* token, float* total,
                     int32_t* rescored) const {
  check_k(k, vocab());
  for_each_row(rows.hidden, rows.rows,
               [&](int64_t at, const RoundedHidden& row, float* logits, CandidateScratch& scratch_of_row) {
                 const float* x = rows.hidden + at * dim();
                 float* to = log_prob + at * k;
                 int32_t* names = token + at * k;
                 float sum = 0.0f;
                 int64_t exact = vocab();
                 if (row.sound) {
                   Candidates candidates(words_, x, logits, k, kRefined, scratch_of_row);
                   if (normalise) sum = candidates.total();
                   exact = candidates.best({norm_.get(), lost_.get(), row.by_norm, row.by_lost}, sum, to, names);
                 } else if (normalise) {
                   exact_topk(words_, x, logits, k, to, names, &sum);
                 } else {
                   words_.all_logits(x, logits);
                   rank_logits(words_.table(), logits, vocab(), k, to, names);
                 }
                 if (total != nullptr) total[at] = sum;
                 if (rescored != nullptr) rescored[at] = static_cast<int32_t>(exact);
               });
}

void ScanLayer::score(const LayerRows& rows, const int32_t* token, bool normalise, float* log_prob) const {
  check_tokens(token, rows.rows, vocab());
  if (!normalise) {
    for (int64_t row = 0; row < rows.rows; ++row) {
      words_.logits(rows.hidden + row * dim(), token + row, 1, log_prob + row);
    }
    return;
  }
  for_each_row(rows.hidden, rows.rows,
               [&](int64_t at, const RoundedHidden& row, float* logits, CandidateScratch& scratch_of_row) {
                 const float* x = rows.hidden + at * dim();
                 const float total = row.sound ? Candidates(words_, x, logits, 1, kRefined, scratch_of_row).total()
                                               : exact_total(words_, x, logits);
                 words_.logits(x, token + at, 1, log_prob + at);
                 log_prob[at] -= total;
               });
}

}  // namespace sharpbeam
