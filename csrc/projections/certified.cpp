#include "projections/certified.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

namespace quickbeam {
namespace {

constexpr int64_t kMostRows = 48, kFewestRows = 6;  // as in the exact projection
constexpr int64_t kScratchFloats = int64_t{1} << 20;
constexpr double kUnit = 0x1p-24;                // u
constexpr double kUp = 1.0 + 0x1p-20;            // what bounds are widened by
constexpr double kShare = 64.0;                  // how little of a the words' sizes are
constexpr double kSmall = 1e-20, kLarge = 1e12;  // sizes of hidden vectors that are bounded

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

struct Scratch {
  Buffer coordinates, preview, bytes, logits;
  CandidateScratch candidates;
};

Scratch& scratch() {
  thread_local Scratch mine;
  return mine;
}

template <typename T>
double norm(const T* x, int64_t n) {
  double square = 0.0;
  for (int64_t k = 0; k < n; ++k) square += static_cast<double>(x[k]) * static_cast<double>(x[k]);
  return std::sqrt(square);
}

double hypot4(double a, double b, double c, double d) { return std::sqrt(a * a + b * b + c * c + d * d); }

// n of the header, for chains of `dim` steps.
double chain_error(int64_t dim) {
  const double steps = static_cast<double>(dim + 1) * kUnit;
  return steps / (1.0 - steps);
}

// Adds the products of all pairs of x to the square matrix `gram`.
void add_products(const std::vector<double>& x, std::vector<double>& gram) {
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < x.size(); ++j) gram[i * x.size() + j] += x[i] * x[j];
  }
}

// The largest sum of sizes of a row: no eigenvalue of a symmetric matrix is larger.
double most_row_sum(const std::vector<double>& gram, int64_t size) {
  double most = 0.0;
  for (auto row = gram.begin(); row != gram.end(); row += size) {
    most =
        std::max(most, std::accumulate(row, row + size, 0.0, [](double sum, double x) { return sum + std::fabs(x); }));
  }
  return most;
}

}  // namespace

struct CertifiedProjection::Row {
  bool bounded;             // false: not finite, too large or too small for the bound; takes the exact way
  float scale;              // of the bytes
  double shift;             // s
  double by_norm, by_lost;  // K and B
  double size;              // |h|
  double spread;            // F
  double lift;              // half the mean square of what the preview leaves out
};

CertifiedProjection::CertifiedProjection(const float* weight, const float* bias, int64_t vocab, int64_t dim,
                                         const PreviewView& view, const Kernels& table, float trust)
    : words_(weight, bias, vocab, dim, table),
      rest_(view.rest),
      head_norm_(view.head_norm),
      balance_(view.balance),
      trust_(trust) {
  const int64_t m = view.coordinates;
  if (m < 1 || m > dim) {
    throw std::invalid_argument("coordinates is " + std::to_string(m) + "; it must be from 1 to the width, " +
                                std::to_string(dim));
  }
  basis_ = Matrix(view.basis, dim, dim, dim, view.shift);
  preview_ = Int8Matrix(vocab, m);
  constant_.reserve(vocab), norm_.reserve(vocab), lost_.reserve(vocab);
  centre_.assign(view.centre, view.centre + dim);
  gram_.assign(view.gram, view.gram + dim);
  basis_norm_ = norm(view.basis, dim * dim), shift_norm_ = norm(view.shift, dim);
  centre_norm_ = norm(view.centre, dim);
  double size_square = 0.0, offset_square = 0.0;
  std::vector<double> lost_row(static_cast<size_t>(m)), lost_gram(static_cast<size_t>(m * m), 0.0);
  for (int64_t v = 0; v < vocab; ++v) {
    const double* y = view.rows + v * dim;
    double offset = bias[v];
    for (int64_t k = 0; k < dim; ++k) offset -= y[k] * view.shift[k];
    constant_.get()[v] = static_cast<float>(offset);
    const double lost = preview_.set_row(v, y, lost_row.data()), own = norm(words_.row(v), dim);
    const double size = own + centre_norm_, offsets = std::fabs(bias[v]) + std::fabs(offset);
    const double a = hypot4(norm(y + m, dim - m), balance_ * norm(y, m), size / kShare, offsets / kShare);
    lost_.get()[v] = above(lost * kUp), norm_.get()[v] = above(a * kUp);
    size_square += size * size, offset_square += offsets * offsets;
    add_products(lost_row, lost_gram);
    most_norm_ = std::max<double>(most_norm_, norm_.get()[v]);
    most_lost_ = std::max<double>(most_lost_, lost_.get()[v]);
  }
  lost_norm_ = std::sqrt(most_row_sum(lost_gram, m)), sizes_ = std::sqrt(size_square),
  offsets_ = std::sqrt(offset_square);
}

CertifiedProjection::Row CertifiedProjection::bounded(const float* hidden, const float* f, int8_t* bytes) const {
  const int64_t m = coordinates();
  Row row{};
  row.scale = words_.table().quantize(f, m, bytes);
  std::fill(bytes + m, bytes + padded_bytes(m), int8_t{0});
  double own = 0.0, moved = 0.0, head = 0.0, tail = 0.0, form = 0.0;
  for (int64_t k = 0; k < dim(); ++k) {
    own += static_cast<double>(hidden[k]) * hidden[k];
    row.shift += static_cast<double>(centre_[static_cast<size_t>(k)]) * hidden[k];
  }
  for (int64_t k = 0; k < m; ++k) {
    const double near = static_cast<double>(row.scale) * bytes[k];
    moved += (f[k] - near) * (f[k] - near);
    head += near * near;
  }
  double most_gram = 0.0;
  for (int64_t k = m; k < dim(); ++k) {
    const double square = static_cast<double>(f[k]) * f[k], weight = gram_[static_cast<size_t>(k)];
    tail += square;
    form += weight * square;
    most_gram = std::max(most_gram, weight);
  }
  row.size = std::sqrt(own), moved = std::sqrt(moved), head = std::sqrt(head), tail = std::sqrt(tail);
  const double n = chain_error(dim()), e = n * (shift_norm_ + basis_norm_ * row.size);
  const bool sound = row.size == 0.0 || (row.size > kSmall && row.size < kLarge);
  row.bounded = sound && (head == 0.0 || head > kSmall) && head < kLarge && tail < kLarge;
  row.by_norm = kUp * trust_ *
                hypot4(tail + e, (moved + e + 5.0 * kUnit * head) / balance_, kShare * (n + rest_) * row.size,
                       kShare * (n + 2.0 * kUnit));
  row.by_lost = kUp * trust_ * (1.0 + 6.0 * kUnit) * head;
  row.spread = kUp * (std::sqrt(form) + std::sqrt(most_gram) * e + lost_norm_ * head * (1.0 + 6.0 * kUnit) +
                      head_norm_ * (moved + e + 5.0 * kUnit * head) + (n + rest_) * row.size * sizes_ +
                      (n + 2.0 * kUnit) * offsets_);
  row.lift = 0.5 * form / static_cast<double>(vocab());
  return row;
}

template <typename Visit>
void CertifiedProjection::for_each_row(const float* hidden, int64_t rows, Visit visit) const {
  const Kernels& table = words_.table();
  const int64_t stride = round_up(vocab(), kLanes), width = padded_bytes(coordinates());
  const int64_t block = std::min(rows, std::clamp(kScratchFloats / stride, kFewestRows, kMostRows));
  Scratch& mine = scratch();
  mine.coordinates.reserve(block * dim());
  mine.preview.reserve(block * stride);
  mine.bytes.reserve(block * width / static_cast<int64_t>(sizeof(float)) + 1);
  mine.candidates.reserve(vocab());
  int8_t* bytes = reinterpret_cast<int8_t*>(mine.bytes.get());
  Row row[kMostRows];
  float scale[kMostRows];
  for (int64_t first = 0; first < rows; first += block) {
    const int64_t count = std::min(block, rows - first);
    const float* x = hidden + first * dim();
    basis_.multiply(table, x, dim(), mine.coordinates.get(), dim(), count);
    for (int64_t r = 0; r < count; ++r) {
      row[r] = bounded(x + r * dim(), mine.coordinates.get() + r * dim(), bytes + r * width);
      scale[r] = row[r].scale;
    }
    preview_.multiply(table, constant_.get(), bytes, width, scale, mine.preview.get(), stride, count);
    for (int64_t r = 0; r < count; ++r) visit(first + r, row[r], mine.preview.get() + r * stride);
  }
}

float CertifiedProjection::measured_total(const float* hidden, const Row& row, Candidates& candidates) const {
  const float total = candidates.total(row.shift, row.lift);
  if (std::expm1(row.lift) * candidates.share_of_others(total) <= kMostLift) return total;
  Buffer& logits = scratch().logits;
  logits.reserve(vocab());
  return exact_total(words_, hidden, logits.get());
}

void CertifiedProjection::topk(const float* hidden, int64_t rows, int64_t k, float* log_prob, int32_t* token,
                               float* total, int32_t* rescored) const {
  words_.check_k(k);
  for_each_row(hidden, rows, [&](int64_t at, const Row& row, float* preview) {
    const float* x = hidden + at * dim();
    float* to = log_prob + at * k;
    rescored[at] = static_cast<int32_t>(vocab());
    if (!row.bounded) {
      exact_topk(words_, x, preview, k, to, token + at * k, total + at);
      return;
    }
    Candidates candidates(words_, x, preview, k, kRefined, scratch().candidates);
    total[at] = measured_total(x, row, candidates);
    const Bound bound{norm_.get(), lost_.get(), above(row.by_norm), above(row.by_lost), row.shift};
    rescored[at] = static_cast<int32_t>(candidates.best(bound, total[at], to, token + at * k));
  });
}

void CertifiedProjection::log_prob(const float* hidden, const int32_t* token, int64_t rows, float* log_prob) const {
  words_.check_tokens(token, rows);
  for_each_row(hidden, rows, [&](int64_t at, const Row& row, float* preview) {
    const float* x = hidden + at * dim();
    words_.logits(x, token + at, 1, log_prob + at);
    if (row.bounded) {
      Candidates candidates(words_, x, preview, 1, kRefined, scratch().candidates);
      log_prob[at] -= measured_total(x, row, candidates);
    } else {
      log_prob[at] -= exact_total(words_, x, preview);
    }
  });
}

// Where the truth is what the exact layer's logits add up to. exp and log are the system's; they round in double
// precision, log_sum_exp by 1e-6 of the larger of its answer and 1: both are paid for.
float CertifiedProjection::proven_total(const float* hidden, const Row& row, float* preview, int64_t refined,
                                        float* error) const {
  const Kernels& table = words_.table();
  const int64_t count = std::min(refined, vocab());
  float* exact = scratch().candidates.exact.get();
  int32_t* found = scratch().candidates.found.data();
  table.top_k(preview, vocab(), count, exact, found);
  const double most = static_cast<double>(exact[count - 1]);  // at least every preview that is left
  for (int64_t i = 0; i < count; ++i) preview[found[i]] = -std::numeric_limits<float>::infinity();
  words_.logits(hidden, found, count, exact);
  const double known = static_cast<double>(table.log_sum_exp(exact, count)) - row.shift;
  const double others = static_cast<double>(table.log_sum_exp(preview, vocab()));
  for (int64_t v = 0; v < vocab(); ++v) preview[v] *= 2.0f;
  const double squares = static_cast<double>(table.log_sum_exp(preview, vocab()));

  const double top = std::max(known, others);
  const double edge = row.by_norm * most_norm_ + row.by_lost * most_lost_;  // d_max
  const double phi = edge < 1e-3 ? 0.51 : (std::expm1(edge) - edge) / (edge * edge);
  const double size = 1.0 + std::fabs(known) + std::fabs(row.shift) + (count < vocab() ? std::fabs(others) : 0.0);
  const double first = std::exp(0.5 * squares * (1.0 - std::copysign(2e-6, squares)) + 1e-6 - top) * row.spread;
  const double second = count < vocab() ? std::exp(most - top) * phi * row.spread * row.spread : 0.0;
  const double sum = std::exp(known - top) + std::exp(others - top);
  const double low = std::log(std::max(std::exp(known - top), sum - first)), high = std::log(sum + first + second);
  *error = above(0.5 * (high - low) + 3e-6 * size);
  return static_cast<float>(top + 0.5 * (low + high) + row.shift);
}

void CertifiedProjection::log_total(const float* hidden, int64_t rows, int64_t refined, float tolerance, float* total,
                                    float* error) const {
  words_.check_k(refined);
  for_each_row(hidden, rows, [&](int64_t at, const Row& row, float* preview) {
    const float* x = hidden + at * dim();
    error[at] = std::numeric_limits<float>::infinity();
    if (row.bounded) total[at] = proven_total(x, row, preview, refined, error + at);
    if (error[at] <= tolerance) return;
    total[at] = exact_total(words_, x, preview);
    error[at] = above(2e-6 * (1.0 + std::fabs(static_cast<double>(total[at]))));
  });
}

}  // namespace quickbeam
