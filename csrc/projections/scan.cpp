#include "projections/scan.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "projections/candidates.h"

namespace quickbeam {
namespace {

constexpr int64_t kMostRows = 48, kFewestRows = 6;  // as in the exact projection
constexpr int64_t kScratchFloats = int64_t{1} << 20;
constexpr double kUnit = 0x1p-24;                // u
constexpr double kUp = 1.0 + 0x1p-20;            // what bounds are widened by
constexpr double kBiasShare = 256.0;             // A a pays for g |b|
constexpr double kSmall = 1e-20, kLarge = 1e12;  // sizes of hidden vectors that are scanned

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

struct Scratch {
  Buffer logits, bytes;
  CandidateScratch candidates;
};

Scratch& scratch() {
  thread_local Scratch mine;
  return mine;
}

}  // namespace

struct ScanProjection::Row {
  bool scanned;            // false: not finite, too large or too small for the bound; takes the exact way
  float scale;             // of its bytes
  float by_norm, by_lost;  // A and B
};

ScanProjection::ScanProjection(const float* weight, const float* bias, int64_t vocab, int64_t dim, const Kernels& table,
                               float trust)
    : words_(weight, bias, vocab, dim, table), bytes_(vocab, dim), norm_(vocab), lost_(vocab), trust_(trust) {
  std::vector<double> w(static_cast<size_t>(dim));
  for (int64_t v = 0; v < vocab; ++v) {
    double square = 0.0;
    for (int64_t k = 0; k < dim; ++k) {
      w[static_cast<size_t>(k)] = words_.row(v)[k];
      square += w[static_cast<size_t>(k)] * w[static_cast<size_t>(k)];
    }
    lost_.get()[v] = above(bytes_.set_row(v, w.data()) * kUp);
    norm_.get()[v] = above((std::sqrt(square) + std::fabs(bias[v]) / kBiasShare) * kUp);
  }
}

ScanProjection::Row ScanProjection::quantized(const float* hidden, int8_t* bytes) const {
  Row row{};
  row.scale = words_.table().quantize(hidden, dim(), bytes);
  std::fill(bytes + dim(), bytes + padded_bytes(dim()), int8_t{0});
  double own = 0.0, lost = 0.0, rounded = 0.0;
  for (int64_t k = 0; k < dim(); ++k) {
    const double x = hidden[k], near = static_cast<double>(row.scale) * bytes[k];
    own += x * x;
    lost += (x - near) * (x - near);
    rounded += near * near;
  }
  own = std::sqrt(own), lost = std::sqrt(lost), rounded = std::sqrt(rounded);
  row.scanned = own == 0.0 || (own > kSmall && own < kLarge);
  const double steps = static_cast<double>(dim()) * kUnit, chain = steps / (1.0 - steps);
  const double by_norm = std::max(lost + chain * own + 5.0 * kUnit * rounded, kBiasShare * (chain + 5.0 * kUnit));
  row.by_norm = above(by_norm * kUp) * trust_;
  row.by_lost = above((1.0 + 6.0 * kUnit) * rounded * kUp) * trust_;
  return row;
}

template <typename Visit>
void ScanProjection::for_each_row(const float* hidden, int64_t rows, Visit visit) const {
  const Kernels& table = words_.table();
  const int64_t stride = round_up(vocab(), kLanes), width = padded_bytes(dim());
  const int64_t block = std::min(rows, std::clamp(kScratchFloats / stride, kFewestRows, kMostRows));
  Scratch& mine = scratch();
  mine.logits.reserve(block * stride);
  mine.bytes.reserve(block * width / static_cast<int64_t>(sizeof(float)) + 1);
  mine.candidates.reserve(vocab());
  int8_t* bytes = reinterpret_cast<int8_t*>(mine.bytes.get());
  Row row[kMostRows];
  float scale[kMostRows];
  for (int64_t first = 0; first < rows; first += block) {
    const int64_t count = std::min(block, rows - first);
    for (int64_t r = 0; r < count; ++r) {
      row[r] = quantized(hidden + (first + r) * dim(), bytes + r * width);
      scale[r] = row[r].scale;
    }
    bytes_.multiply(table, words_.bias(), bytes, width, scale, mine.logits.get(), stride, count);
    for (int64_t r = 0; r < count; ++r) visit(first + r, row[r], mine.logits.get() + r * stride);
  }
}

void ScanProjection::topk(const float* hidden, int64_t rows, int64_t k, bool normalise, float* log_prob, int32_t* token,
                          float* total, int32_t* rescored) const {
  words_.check_k(k);
  for_each_row(hidden, rows, [&](int64_t at, const Row& row, float* logits) {
    const float* x = hidden + at * dim();
    float* to = log_prob + at * k;
    rescored[at] = static_cast<int32_t>(vocab());
    if (!row.scanned && !normalise) {
      words_.all_logits(x, logits);
      rank_raw(words_.table(), logits, vocab(), k, to, token + at * k);
      total[at] = 0.0f;
      return;
    }
    if (!row.scanned) {
      exact_topk(words_, x, logits, k, to, token + at * k, total + at);
      return;
    }
    Candidates candidates(words_, x, logits, k, kRefined, scratch().candidates);
    total[at] = normalise ? candidates.total(0.0, 0.0) : 0.0f;
    const Bound bound{norm_.get(), lost_.get(), row.by_norm, row.by_lost, 0.0};
    rescored[at] = static_cast<int32_t>(candidates.best(bound, total[at], to, token + at * k));
  });
}

void ScanProjection::log_prob(const float* hidden, const int32_t* token, int64_t rows, bool normalise,
                              float* log_prob) const {
  words_.check_tokens(token, rows);
  if (!normalise) {
    for (int64_t row = 0; row < rows; ++row) words_.logits(hidden + row * dim(), token + row, 1, log_prob + row);
    return;
  }
  for_each_row(hidden, rows, [&](int64_t at, const Row& row, float* logits) {
    const float* x = hidden + at * dim();
    const float total = row.scanned ? Candidates(words_, x, logits, 1, kRefined, scratch().candidates).total(0.0, 0.0)
                                    : exact_total(words_, x, logits);
    words_.logits(x, token + at, 1, log_prob + at);
    log_prob[at] -= total;
  });
}

}  // namespace quickbeam
