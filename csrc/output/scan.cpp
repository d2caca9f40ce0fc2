#include "output/scan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/team.h"
#include "output/candidates.h"
#include "output/scratch.h"

namespace sharpbeam {
namespace {

constexpr float kLong = 8.0f;  // times the median norm

struct Scratch {
  Buffer logits, int8;
  CandidateScratch candidates;
};

}  // namespace

ScanLayer::ScanLayer(Array weight, const float* bias, int64_t vocab, int64_t dim, const Kernels& table, float trust)
    : matrix_(std::move(weight), bias, vocab, dim, table),
      int8_(vocab, dim),
      norm_(panels_of(vocab) * kPanel),
      most_norm_(panels_of(vocab)),
      lost_(panels_of(vocab) * kPanel),
      most_lost_(panels_of(vocab)),
      mean_(static_cast<size_t>(dim), 0.0),
      trust_(trust) {
  std::fill(norm_.get() + vocab, norm_.get() + panels_of(vocab) * kPanel, 0.0f);
  std::fill(lost_.get() + vocab, lost_.get() + panels_of(vocab) * kPanel, 0.0f);
  matrix_.read([&](int64_t token) {
    lost_.get()[token] = widened(int8_.set_row(token, matrix_.row(token)));
    norm_.get()[token] = norm_of(matrix_, token);
    add_to_mean(token, 1.0);
  });
  set_longest();
  table.panel_maxima(norm_.get(), panels_of(vocab), most_norm_.get());
  table.panel_maxima(lost_.get(), panels_of(vocab), most_lost_.get());
}

void ScanLayer::add_to_mean(int64_t token, double times) {
  for (size_t k = 0; k < mean_.size(); ++k) mean_[k] += times * matrix_.row(token)[k] / static_cast<double>(vocab());
}

// One row of many times the usual size would be all of the mean row, which would say nothing of the others.
void ScanLayer::set_longest() {
  std::vector<float> norms(norm_.get(), norm_.get() + vocab());
  const auto middle = norms.begin() + vocab() / 2;
  std::nth_element(norms.begin(), middle, norms.end());
  float most = kLong * *middle;
  const auto count = std::count_if(norms.begin(), norms.end(), [&](float norm) { return norm > most; });
  if (count * 64 > vocab()) most = std::numeric_limits<float>::infinity();  // so many are no exceptions
  for (int64_t token = 0; token < vocab(); ++token) {
    const double norm = norm_.get()[token], lost = lost_.get()[token], share = 1.0 / static_cast<double>(vocab());
    if (norm > most)
      longest_.push_back(static_cast<int32_t>(token));
    else
      mean_norm_ += norm * norm * share, mean_lost_ += lost * lost * share;
  }
  mean_norm_ = std::sqrt(mean_norm_), mean_lost_ = std::sqrt(mean_lost_);
  if (longest_.empty()) return;
  matrix_.read([&](int64_t token) {
    if (norm_.get()[token] > most) add_to_mean(token, -1.0);
  });
}

Bound ScanLayer::bound_of(const Int8Hidden& row) const {
  Bound bound{norm_.get(), lost_.get(), most_norm_.get(), most_lost_.get(), row.by_norm, row.by_lost, 0.0, longest_};
  bound.mean_square = bound.square(mean_norm_, mean_lost_);
  return bound;
}

template <typename Visit>
void ScanLayer::for_each_row(const LayerRows& rows, Visit visit) const {
  const Kernels& table = matrix_.table();
  const int64_t stride = panels_of(vocab()) * kPanel, width = padded_int8(dim());
  for_each_block(rows.rows, stride, [&](int64_t first, int64_t count) {
    Scratch& own = thread_scratch<Scratch>();
    float* logits = reserved(own.logits, count * stride);
    int8_t* int8 = reserved_int8(own.int8, count * width);
    Int8Hidden row[kRowsAtOnce];
    float scale[kRowsAtOnce];
    for (int64_t r = 0; r < count; ++r) {
      row[r] = quantize_hidden(table, rows.hidden + (first + r) * dim(), mean_.data(), dim(), width, trust_,
                               int8 + r * width);
      scale[r] = row[r].scale;
    }
    int8_.matmul(table, matrix_.bias(), int8, width, scale, logits, stride, count);
    parallel_for(count, [&](int64_t r) {
      CandidateScratch& candidates = thread_scratch<Scratch>().candidates;  // of the thread that takes the row
      candidates.reserve(vocab());
      std::fill(logits + r * stride + vocab(), logits + (r + 1) * stride, kNever);
      visit(ScannedRow{first + r, rows.hidden + (first + r) * dim(), row[r], logits + r * stride}, candidates);
    });
  });
}

void ScanLayer::rank(const LayerRows& rows, int64_t k, bool normalize, float* log_prob, int32_t* token, float* total,
                     int32_t* rescored) const {
  check_k(k, vocab());
  for_each_row(rows, [&](const ScannedRow& row, CandidateScratch& scratch) {
    const Bound bound = bound_of(row.form);
    float* to = log_prob + row.index * k;
    int32_t* tokens = token + row.index * k;
    float log_total = 0.0f, error = 0.0f;
    int64_t exact = vocab();
    if (row.form.sound) {
      Candidates candidates(matrix_, row.hidden, row.logits, bound, k, normalize ? kRefined : 0, scratch);
      if (normalize) log_total = candidates.log_total(row.form.mean_error, error);
      exact = candidates.best(log_total, to, tokens);
      // The normalizer may be a little below the best logit, but no token is likelier than 1.
      for (int64_t i = 0; normalize && i < k && to[i] > 0.0f; ++i) to[i] = 0.0f;
    } else {
      log_total = matrix_.rank_all(row.hidden, normalize, k, row.logits, to, tokens);
    }
    rows.note(row.index, log_total, error);
    if (total != nullptr) total[row.index] = log_total;
    if (rescored != nullptr) rescored[row.index] = static_cast<int32_t>(exact);
  });
}

float ScanLayer::total_of(const ScannedRow& row, int64_t refined, CandidateScratch& scratch, float& error) const {
  error = 0.0f;
  if (!row.form.sound) return matrix_.log_total(row.hidden, row.logits);
  const Bound bound = bound_of(row.form);
  return Candidates(matrix_, row.hidden, row.logits, bound, 1, refined, scratch).log_total(row.form.mean_error, error);
}

void ScanLayer::score(const LayerRows& rows, const int32_t* token, bool normalize, float* log_prob) const {
  check_tokens(token, rows.rows, vocab());
  if (!normalize) return matrix_.logit_of_each(rows.hidden, token, rows.rows, log_prob);
  for_each_row(rows, [&](const ScannedRow& row, CandidateScratch& scratch) {
    float error;
    const float total = total_of(row, kRefined, scratch, error);
    rows.note(row.index, total, error);
    matrix_.logits(row.hidden, token + row.index, 1, log_prob + row.index);
    log_prob[row.index] = std::min(log_prob[row.index] - total, 0.0f);
  });
}

void ScanLayer::closer_totals(const LayerRows& rows) const {
  for_each_row(rows, [&](const ScannedRow& row, CandidateScratch& scratch) {
    float error;
    const float total = total_of(row, kCloser, scratch, error);
    rows.note(row.index, total, error);
  });
}

}  // namespace sharpbeam
