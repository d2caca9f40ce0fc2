#include "output/certified.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "output/scratch.h"

namespace sharpbeam {
namespace {

struct Scratch {
  Buffer coordinates, squares, preview;  // of a block of rows
  Buffer preview_int8, hidden_int8;
  Buffer near, slack;  // of the tokens that were compared: their int8 logits, and how far the exact ones can be
  Buffer best, low;
  std::vector<int32_t> place, token;  // candidates: where they are in the preview, and their ids
  std::vector<int32_t> order;

  void reserve(int64_t vocab, int64_t dim) {
    for (Buffer* each : {&near, &slack, &best, &low}) each->reserve(vocab);
    squares.reserve(dim);
    for (std::vector<int32_t>* each : {&place, &token, &order}) reserved(*each, vocab + kLanes);
  }
};

Scratch& scratch() { return thread_scratch<Scratch>(); }

}  // namespace

CertifiedLayer::CertifiedLayer(Array weight, const float* bias, int64_t vocab, int64_t dim, const PreviewView& view,
                               const Kernels& table, float tolerance, float trust)
    : matrix_(std::move(weight), bias, vocab, dim, table),
      int8_(matrix_),
      preview_(matrix_, view, trust),
      tolerance_(tolerance),
      trust_(trust) {
  release_pages(matrix_.row(0), matrix_.row(vocab));
}

template <typename Visit>
void CertifiedLayer::for_each_row(const float* hidden, int64_t rows, Visit visit) const {
  const Kernels& table = matrix_.table();
  const int64_t stride = round_up(vocab(), kLanes), width = preview_.int8_width(), padded = int8_.padded();
  Scratch& own = scratch();
  own.reserve(vocab(), dim());
  for_each_block(rows, stride, [&](int64_t first, int64_t count) {
    float* coordinates = reserved(own.coordinates, count * dim());
    float* preview = reserved(own.preview, count * stride);
    int8_t* numbers = reserved_int8(own.hidden_int8, count * padded);
    int8_t* preview_numbers = reserved_int8(own.preview_int8, count * width);
    Row row[kRowsAtOnce];
    float scale[kRowsAtOnce];
    preview_.project(table, hidden + first * dim(), count, coordinates);
    for (int64_t r = 0; r < count; ++r) {
      const float* x = hidden + (first + r) * dim();
      row[r] = {x, preview_.row(table, x, coordinates + r * dim(), preview_numbers + r * width, own.squares.get()),
                quantize_hidden(table, x, dim(), padded, trust_, numbers + r * padded), numbers + r * padded};
      scale[r] = row[r].preview.scale;
    }
    preview_.compute(table, preview_numbers, scale, count, preview, stride);
    for (int64_t r = 0; r < count; ++r) visit(first + r, row[r], preview + r * stride);
  });
}

void CertifiedLayer::compare(const Row& row, const int32_t* place, int64_t count) const {
  Scratch& own = scratch();
  int32_t* token = own.token.data();
  for (int64_t i = 0; i < count; ++i) token[i] = preview_.token(place[i]);
  int8_.logits(matrix_.table(), row.numbers, row.int8, token, count, own.near.get(), own.slack.get());
}

void CertifiedLayer::seed(const Row& row, const float* preview, int64_t count) const {
  // Nearly all of the best tokens are in the first levels: a few more would not raise the threshold.
  Scratch& own = scratch();
  matrix_.table().top_k(preview, preview_.likely_places(count), count, own.best.get(), own.place.data());
  compare(row, own.place.data(), count);
}

int64_t CertifiedLayer::candidates(const Row& row, const float* preview, int64_t k, float total) const {
  const int64_t seeds = std::min(std::max(k, kSeeds), vocab());
  seed(row, preview, seeds);
  const float bar = bar_below(threshold(seeds, k), total, row.preview.shift);
  int32_t* place = scratch().place.data();
  const int64_t count = preview_.find_at_least(matrix_.table(), row.preview, preview, bar, place);
  if (count < k) {  // only where the bounds are not trusted
    seed(row, preview, seeds);
    return seeds;
  }
  compare(row, place, count);
  return count;
}

float CertifiedLayer::threshold(int64_t known, int64_t k) const {
  Scratch& own = scratch();
  float* low = own.low.get();
  for (int64_t i = 0; i < known; ++i) low[i] = own.near.get()[i] - own.slack.get()[i];
  matrix_.table().top_k(low, known, k, own.best.get(), own.order.data());
  return own.best.get()[k - 1];
}

void CertifiedLayer::rank_candidates(const float* hidden, int64_t count, int64_t k, float total, float* log_prob,
                                     int32_t* token) const {
  Scratch& own = scratch();
  const float bar = bar_below(threshold(count, k), total, 0.0);
  int32_t* tokens = own.token.data();
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!(own.near.get()[i] + own.slack.get()[i] < bar)) tokens[kept++] = tokens[i];
  }
  std::sort(tokens, tokens + kept);
  matrix_.logits(hidden, tokens, kept, own.near.get());
  rank_log_probs(matrix_.table(), own.near.get(), tokens, kept, total, k, log_prob, token);
}

void CertifiedLayer::rank(const LayerRows& rows, int64_t k, bool normalise, float* log_prob, int32_t* token,
                          float* total, int32_t* left) const {
  check_k(k, vocab());
  for_each_row(rows.hidden, rows.rows, [&](int64_t index, const Row& row, float* preview) {
    float* to = log_prob + index * k;
    int32_t* tokens = token + index * k;
    float sum = 0.0f;
    int64_t count = vocab();
    if (row.bounded()) {
      if (normalise) sum = proven_total(row, preview, std::min(kRefined, vocab()), tolerance_).total;
      count = candidates(row, preview, k, sum);
      rank_candidates(row.hidden, count, k, sum, to, tokens);
    } else {
      sum = matrix_.rank_all(row.hidden, normalise, k, preview, to, tokens);
    }
    if (total != nullptr) total[index] = sum;
    if (left != nullptr) left[index] = static_cast<int32_t>(count);
  });
}

void CertifiedLayer::score(const LayerRows& rows, const int32_t* token, bool normalise, float* log_prob) const {
  check_tokens(token, rows.rows, vocab());
  if (!normalise) return matrix_.logit_of_each(rows.hidden, token, rows.rows, log_prob);
  for_each_row(rows.hidden, rows.rows, [&](int64_t index, const Row& row, float* preview) {
    const float total = row.bounded() ? proven_total(row, preview, std::min(kRefined, vocab()), tolerance_).total
                                      : matrix_.log_total(row.hidden, preview);
    matrix_.logits(row.hidden, token + index, 1, log_prob + index);
    log_prob[index] -= total;
  });
}

// The truth is what the exact layer's logits add up to.
Preview::Interval CertifiedLayer::proven_total(const Row& row, const float* preview, int64_t refined,
                                               float tolerance) const {
  const Kernels& table = matrix_.table();
  Scratch& own = scratch();
  float *exact = own.near.get(), *rest = own.best.get();
  int32_t *place = own.place.data(), *token = own.token.data();
  table.top_k(preview, vocab(), refined, exact, place);
  const double most = static_cast<double>(exact[refined - 1]);  // at least every preview that is left
  std::copy_n(preview, vocab(), rest);
  for (int64_t i = 0; i < refined; ++i) {
    rest[place[i]] = kNever;
    token[i] = preview_.token(place[i]);
  }
  matrix_.logits(row.hidden, token, refined, exact);
  const double known = static_cast<double>(table.log_sum_exp(exact, refined)) - row.preview.shift;
  const Preview::Interval proven = preview_.log_total(table, row.preview, known, most, rest);
  return proven.error <= tolerance ? proven : exact_total(row.hidden, rest);
}

Preview::Interval CertifiedLayer::exact_total(const float* hidden, float* logits) const {
  const float total = matrix_.log_total(hidden, logits);
  return {total, above(2e-6 * (1.0 + std::fabs(static_cast<double>(total))))};
}

void CertifiedLayer::log_total(const float* hidden, int64_t rows, int64_t refined, float tolerance, float* total,
                               float* error) const {
  check_k(refined, vocab());
  for_each_row(hidden, rows, [&](int64_t index, const Row& row, float* preview) {
    const Preview::Interval found =
        row.bounded() ? proven_total(row, preview, refined, tolerance) : exact_total(row.hidden, preview);
    total[index] = found.total;
    error[index] = found.error;
  });
}

}  // namespace sharpbeam
