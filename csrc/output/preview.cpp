#include "output/preview.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/team.h"
#include "linear/panels.h"
#include "output/floors.h"
#include "output/scratch.h"

namespace sharpbeam {
namespace {

constexpr int64_t kExactShare = 8;  // more than one token in so many left: take all of them
constexpr int64_t kMostSeeds = 64;
constexpr int64_t kKept = 512;
constexpr float kLeastDeviation = 16.0f;      // the least one is their root mean square over this
constexpr double kLeast = 0.4, kUsual = 4.0;  // times the size of a fitted vector: a row whose sums are estimated
constexpr double kLarge = 1e12;               // more than the size of hidden vectors that have a preview
constexpr double kRounding = 0x1p-16;         // of a dot product's terms: 256 times float32's
constexpr double kNone = -std::numeric_limits<double>::infinity();

struct Scratch {
  Buffer coordinates, preview, top, tables, exact, values, kept_logit;
  std::vector<int32_t> panel, left, kept;
  std::vector<double> score;
};

Scratch& scratch() { return thread_scratch<Scratch>(); }

void refuse(const std::string& what) { throw std::invalid_argument(what + "; fit the preview again"); }

// Throws std::invalid_argument where the view is not as its comments say.
void check(const PreviewView& view, int64_t dim) {
  const int64_t most = std::min(kMaxCodes, dim);
  if (view.codes < 1 || view.codes > most)
    refuse("codes is " + std::to_string(view.codes) + "; it must be from 1 to " + std::to_string(most));
  if (*std::min_element(view.lengths, view.lengths + view.codes) < 1 ||
      std::accumulate(view.lengths, view.lengths + view.codes, int64_t{0}) != dim) {
    refuse("lengths must be at least 1, and " + std::to_string(dim) + " altogether");
  }
}

constexpr int64_t kGroupBytes = kPanel * kCodeGroup / 2;

// The byte of a group of codes, and the bits in it, of code c of token i of a panel: kernels/body/code_sums_body.h.
struct CodePlace {
  int64_t byte;
  int shift;
};
CodePlace code_place(const Kernels& table, int64_t i, int64_t c) {
  if (table.codes_by_token) return {i / 16 * kPanel + 4 * (i % 16) + c % 4, c < 4 ? 0 : 4};
  return {c / 2 * kPanel + (i < kPanel / 2 ? 2 * i : 2 * (i - kPanel / 2) + 1), c % 2 == 0 ? 0 : 4};
}

// `values` [vocab] by panels, filled up with `fill`.
void set_panels(const float* values, int64_t vocab, float fill, Buffer& panels) {
  panels.reserve(panels_of(vocab) * kPanel);
  std::fill(std::copy_n(values, vocab, panels.get()), panels.get() + panels_of(vocab) * kPanel, fill);
}

}  // namespace

struct PreviewLayer::Row {
  const float* hidden;
  bool sound;                       // false: not finite, too large or too small; the row takes exact logits
  bool usual;                       // false: much larger than vectors of the fit, so that its sums are no estimate
  double shift;                     // c h, which previews lack
  double rounding;                  // how far off it may be in float32, as in exact logits
  float step, base;                 // of its tables
  float by_deviation, by_rounding;  // s and m t^2 / (24 s), times the deviations
  float *preview, *top;
  float total;    // what is taken off logits
  float error;    // how far it may be off
  double floor;   // of the log probabilities that matter
  float best;     // logit among the first seeds: a row's total must not depend on how many the search wants
  int32_t* kept;  // [kKept] tokens with exact logits, rising, if there are few
  float* kept_logit;
  int64_t kept_count;
  float kept_bar;  // all that may reach it are kept
  int64_t exact;   // tokens that took exact logits
  bool skipped;    // none could matter
  int64_t seeds;
  float seed[kMostSeeds];  // logits
  int32_t seed_token[kMostSeeds];
};

PreviewLayer::PreviewLayer(Array weight, const float* bias, int64_t vocab, int64_t dim, const PreviewView& view,
                           const PreviewNormalizer& normalizer, const Kernels& table)
    : matrix_(std::move(weight), bias, vocab, dim, table), deviations_(view.deviations), normalizer_(normalizer) {
  check(view, dim);
  basis_ = Float32Matrix(view.basis, dim, dim, dim, view.shift);
  center_.assign(view.center, view.center + dim);
  words_.reserve(dim * kCodeWords);
  for (int64_t k = 0; k < dim; ++k) {
    for (int64_t i = 0; i < kCodeWords; ++i) words_.get()[k * kCodeWords + i] = view.words[i * dim + k];
  }
  lengths_.assign(view.lengths, view.lengths + view.codes);
  groups_ = (view.codes + kCodeGroup - 1) / kCodeGroup, panels_ = panels_of(vocab);
  set_codes(view);
  set_panels(view.scale, vocab, 0.0f, scale_), set_panels(view.offset, vocab, kNever, offset_);
  set_deviations(view);
}

void PreviewLayer::set_deviations(const PreviewView& view) {
  double square = 0.0;
  for (int64_t n = 0; n < vocab(); ++n) square += static_cast<double>(view.deviation[n]) * view.deviation[n];
  // Rows that are near to their codes have a little more, or their tables would count too much.
  const float least = std::max(static_cast<float>(std::sqrt(square / static_cast<double>(vocab()))) / kLeastDeviation,
                               std::numeric_limits<float>::min());
  std::vector<float> deviation(static_cast<size_t>(vocab())), rounding(static_cast<size_t>(vocab()));
  for (size_t n = 0; n < deviation.size(); ++n) {
    deviation[n] = std::max(view.deviation[n], least), rounding[n] = view.scale[n] * view.scale[n] / deviation[n];
  }
  set_panels(deviation.data(), vocab(), 0.0f, deviation_), set_panels(rounding.data(), vocab(), 0.0f, rounding_);
  most_deviation_.reserve(panels_), most_rounding_.reserve(panels_);
  matrix_.table().panel_maxima(deviation_.get(), panels_, most_deviation_.get());
  matrix_.table().panel_maxima(rounding_.get(), panels_, most_rounding_.get());
}

void PreviewLayer::set_codes(const PreviewView& view) {
  const int64_t numbers = (view.codes + 7) / 8, panel_bytes = groups_ * kGroupBytes;
  codes_.reserve(panels_ * panel_bytes / static_cast<int64_t>(sizeof(float)));
  uint8_t* codes = reinterpret_cast<uint8_t*>(codes_.get());
  std::fill_n(codes, panels_ * panel_bytes, uint8_t{0});
  for (int64_t n = 0; n < vocab(); ++n) {
    for (int64_t c = 0; c < view.codes; ++c) {
      const auto number = static_cast<uint32_t>(view.packed[n * numbers + c / 8]);
      const CodePlace place = code_place(matrix_.table(), n % kPanel, c % kCodeGroup);
      uint8_t& byte = codes[n / kPanel * panel_bytes + c / kCodeGroup * kGroupBytes + place.byte];
      byte = static_cast<uint8_t>(byte | (number >> c % 8 * 4 & 15) << place.shift);
    }
  }
}

template <typename Visit>
void PreviewLayer::for_each_block_of_rows(const float* hidden, int64_t rows, const int32_t* request,
                                          Visit visit) const {
  const Kernels& table = matrix_.table();
  const int64_t stride = panels_ * kPanel, width = groups_ * kCodeGroup * kCodeWords;
  const auto codes = static_cast<int64_t>(lengths_.size());
  const auto compute = [&](int64_t first, int64_t count) {
    Scratch& own = scratch();
    const float* x = hidden + first * dim();
    float* coordinates = reserved(own.coordinates, count * dim());
    float* preview = reserved(own.preview, count * stride);
    float* top = reserved(own.top, count * panels_);
    uint8_t* tables = reinterpret_cast<uint8_t*>(reserved_int8(own.tables, count * width));
    int32_t* kept = reserved(own.kept, count * kKept);
    float* kept_logit = reserved(own.kept_logit, count * kKept);
    Row row[kRowsAtOnce];
    float step[kRowsAtOnce], base[kRowsAtOnce];
    basis_.matmul(table, x, dim(), coordinates, dim(), count);
    for (int64_t r = 0; r < count; ++r) {
      double square = 0.0, shift = 0.0, sizes = 0.0;
      const float *h = x + r * dim(), *g = coordinates + r * dim();
      for (int64_t k = 0; k < dim(); ++k) {
        square += static_cast<double>(g[k]) * g[k];
        const double product = static_cast<double>(center_[static_cast<size_t>(k)]) * h[k];
        shift += product, sizes += std::fabs(product);
      }
      const double size = std::sqrt(square / static_cast<double>(dim()));
      Row& one = row[r] = Row{};
      one.hidden = h, one.shift = shift, one.rounding = kRounding * sizes, one.floor = kNone;
      one.preview = preview + r * stride, one.top = top + r * panels_;
      one.kept = kept + r * kKept, one.kept_logit = kept_logit + r * kKept;
      one.sound = size < kLarge && std::fabs(shift) < kLarge, one.usual = size >= kLeast && size <= kUsual;
      uint8_t* own_tables = tables + r * width;
      double least = 0.0;
      std::fill_n(own_tables, width, uint8_t{0});
      if (one.sound) table.code_tables(g, words_.get(), lengths_.data(), codes, own_tables, &one.step, &least);
      one.base = static_cast<float>(least);
      one.by_deviation = deviations_ * static_cast<float>(size);
      one.by_rounding =
          size > 0.0
              ? deviations_ * static_cast<float>(static_cast<double>(codes) * one.step * one.step / (24.0 * size))
              : 0.0f;
      step[r] = one.step, base[r] = one.base;
    }
    parallel_panels(stride, groups_ * 4, count, [&](int64_t from, int64_t columns) {
      table.preview_codes(reinterpret_cast<const uint8_t*>(codes_.get()) + from * groups_ * 4, scale_.get() + from,
                          offset_.get() + from, tables, width, step, base, preview + from, stride, top + from / kPanel,
                          panels_, count, groups_, columns / kPanel);
    });
    visit(first, count, row);
  };
  for_each_block(rows, stride, compute, request);
}

void PreviewLayer::seed(Row& row, int64_t seeds) const {
  Scratch& own = scratch();
  const Kernels& table = matrix_.table();
  float* best = reserved(own.values, panels_ * kPanel + kLanes);
  int32_t* panel = reserved(own.panel, panels_ + kLanes);
  table.top_k(row.top, panels_, seeds, best, panel);
  row.seeds = 0;
  for (int64_t i = 0; i < seeds; ++i) {
    const int64_t first = int64_t{panel[i]} * kPanel;
    float value;
    int32_t at;
    table.top_k(row.preview + first, std::min<int64_t>(kPanel, vocab() - first), 1, &value, &at);
    row.seed_token[row.seeds++] = static_cast<int32_t>(first + at);
  }
  matrix_.logits(row.hidden, row.seed_token, row.seeds, row.seed);
  row.best = *std::max_element(row.seed, row.seed + std::min(row.seeds, kSeeds));
}

int64_t PreviewLayer::reaching(const Row& row, float bar) const {
  Scratch& own = scratch();
  const Kernels& table = matrix_.table();
  int32_t *panel = reserved(own.panel, panels_ + kLanes), *left = reserved(own.left, panels_ * kPanel + kLanes);
  const int64_t opened = table.find_at_least(row.top, most_deviation_.get(), most_rounding_.get(), row.by_deviation,
                                             row.by_rounding, bar, panels_, panel);
  return table.find_in_panels(row.preview, deviation_.get(), rounding_.get(), row.by_deviation, row.by_rounding, bar,
                              panel, opened, left);
}

bool PreviewLayer::has_seeds(const Row& row, int64_t seeds, float bar, const int32_t* tokens, int64_t count) const {
  for (int64_t i = 0; i < std::min(row.seeds, seeds); ++i) {
    const bool reaches = static_cast<double>(row.seed[i]) - row.shift >= static_cast<double>(bar);
    if (reaches && !std::binary_search(tokens, tokens + count, row.seed_token[i])) return false;
  }
  return true;
}

double PreviewLayer::estimate(Row& row, const PreviewNormalizer& normalizer) const {
  Scratch& own = scratch();
  const Kernels& table = matrix_.table();
  float* exact = reserved(own.exact, panels_ * kPanel + kLanes);
  const auto take_exact = [&] {
    row.total = matrix_.log_total(row.hidden, exact), row.error = 0.0f, row.exact += vocab();
    return 0.0;
  };
  if (!row.sound || !row.usual) return take_exact();
  const float bar = static_cast<float>(row.best - row.shift) - normalizer.depth;
  const int64_t left = reaching(row, bar);
  const int32_t* token = own.left.data();
  if (left == 0 || left * kExactShare > vocab() || !has_seeds(row, kSeeds, bar, token, left)) return take_exact();
  matrix_.logits(row.hidden, token, left, exact);
  row.exact += left;
  if (left <= kKept) {
    std::copy_n(token, left, row.kept), std::copy_n(exact, left, row.kept_logit);
    row.kept_count = left, row.kept_bar = bar;
  }
  const double known = table.log_sum_exp(exact, left);
  // The others: without those that are known, in panels that may hold some that count, and the largest of the rest.
  float* kept = reserved(own.values, panels_ * kPanel + kLanes);
  for (int64_t i = 0; i < left; ++i) kept[i] = std::exchange(row.preview[token[i]], kNever);
  float *tops = exact, peak = kNever;
  int32_t* panel = reserved(own.panel, panels_ + kLanes);
  int64_t opened = 0;
  std::copy_n(row.top, panels_, tops);
  for (int64_t p = 0; p < panels_; ++p) {
    peak = std::max(peak, row.top[p]);
    if (row.top[p] >= bar - kClosed) panel[opened++] = static_cast<int32_t>(p), tops[p] = kNever;
  }
  const double summed = opened > 0 ? table.sum_exp_in_panels(row.preview, peak, panel, opened) : 0.0;
  for (int64_t i = 0; i < left; ++i) row.preview[token[i]] = kept[i];
  const double shift = row.shift - known, closed = table.log_sum_exp(tops, panels_);
  const double others = normalizer.near * summed * std::exp(peak + shift) + normalizer.far * std::exp(closed + shift);
  row.total = static_cast<float>(known + std::log1p(others));
  if (!(row.total >= row.best && std::isfinite(row.total))) return take_exact();  // a preview is too far off
  const double share = others / (1.0 + others);
  row.error = above(normalizer.spread * std::sqrt(share));
  return share;
}

void PreviewLayer::set_floors(Row* row, int64_t first, int64_t rows, const LayerRows& given) const {
  const double* open = given.beam->open;
  for_each_floor(
      given, first, rows, scratch().score,
      [&](int64_t r, auto take) {  // seeds come with the best previews first
        for (int64_t i = 0; i < row[r].seeds; ++i) take(row[r].seed_token[i], row[r].seed[i] - row[r].total);
      },
      [&](int64_t r) {
        return (open == nullptr ? 0.0 : open[first + r]) + (given.estimates == nullptr ? 0.0 : row[r].error);
      },
      [&](int64_t r, double floor) { row[r].floor = floor; });
}

void PreviewLayer::rank_row(Row& row, int64_t k, bool normalize, float* log_prob, int32_t* token) const {
  Scratch& own = scratch();
  float* logits = reserved(own.exact, panels_ * kPanel + kLanes);
  // In logits. The bar of a beam's floor is a little lower than it is: sums of scores are rounded.
  float known = kNever;
  if (row.floor > kNone) {
    known = -above(-(row.floor + row.total) + 1e-6 * (1.0 + std::fabs(row.floor) + std::fabs(row.total)));
  } else if (row.seeds >= k) {
    float* seeds = reserved(own.values, panels_ * kPanel + kLanes);
    std::copy_n(row.seed, row.seeds, seeds);
    std::nth_element(seeds, seeds + (k - 1), seeds + row.seeds, std::greater<float>());
    known = seeds[k - 1];
  }
  const float bar = bar_below(known, row.total, row.shift + row.rounding);
  const bool kept = row.sound && row.kept_count > 0 && bar >= row.kept_bar;
  int64_t left = kept ? row.kept_count : row.sound ? reaching(row, bar) : vocab();
  const int32_t* tokens = kept ? row.kept : own.left.data();
  // Without a floor there are always k; more than all: of weights or scores that are broken.
  const bool all = !row.sound || left > vocab() || !has_seeds(row, kMostSeeds, bar, tokens, left) ||
                   (row.floor == kNone && (left < k || (!kept && left * kExactShare > vocab())));
  if (all) {
    left = vocab(), tokens = nullptr;
    matrix_.all_logits(row.hidden, logits);
  } else if (kept) {
    logits = row.kept_logit;
  } else {
    matrix_.logits(row.hidden, tokens, left, logits);
  }
  const int64_t some = std::min(left, k);
  if (some > 0) rank_log_probs(matrix_.table(), logits, tokens, left, row.total, some, log_prob, token);
  row.exact += kept ? 0 : left, row.skipped = left == 0;
  // No token is likelier than 1, whatever the estimate of the normalizer.
  for (int64_t i = 0; normalize && i < some; ++i) log_prob[i] = std::min(log_prob[i], 0.0f);
  for (int64_t i = some; i < k; ++i) log_prob[i] = kNever, token[i] = 0;
}

void PreviewLayer::rank(const LayerRows& rows, int64_t k, bool normalize, float* log_prob, int32_t* token,
                        float* totals, PreviewCounts& counts) const {
  check_k(k, vocab());
  const int64_t wanted = rows.narrowed() && rows.beam->whole == nullptr ? rows.beam->width + 1 : k;
  const int64_t seeds = std::min({std::max(wanted, kSeeds), panels_, kMostSeeds});
  for_each_block_of_rows(rows.hidden, rows.rows, rows.request, [&](int64_t first, int64_t count, Row* row) {
    parallel_for(count, [&](int64_t r) {
      if (row[r].sound) seed(row[r], seeds);
      if (normalize) estimate(row[r], normalizer_);
    });
    if (rows.narrowed() && rows.request != nullptr) set_floors(row, first, count, rows);
    for (int64_t r = 0; r < count; ++r) {
      if (totals != nullptr) totals[first + r] = row[r].total;
      rows.note(first + r, row[r].total, row[r].error);
      if (rows.floor != nullptr) row[r].floor = std::max(row[r].floor, static_cast<double>(rows.floor[first + r]));
    }
    parallel_for(
        count, [&](int64_t r) { rank_row(row[r], k, normalize, log_prob + (first + r) * k, token + (first + r) * k); });
    for (int64_t r = 0; r < count; ++r) {
      ++counts.rows, counts.exact += row[r].exact;
      counts.skipped += row[r].skipped, counts.whole += row[r].exact >= vocab();
    }
  });
}

template <typename Visit>
void PreviewLayer::for_each_estimate(const float* hidden, int64_t rows, const PreviewNormalizer& normalizer,
                                     Visit visit) const {
  for_each_block_of_rows(hidden, rows, nullptr, [&](int64_t first, int64_t count, Row* row) {
    parallel_for(count, [&](int64_t r) {
      if (row[r].sound) seed(row[r], std::min(kSeeds, panels_));
      const double share = estimate(row[r], normalizer);
      visit(first + r, row[r], share);
    });
  });
}

void PreviewLayer::score(const LayerRows& rows, const int32_t* token, bool normalize, float* log_prob) const {
  check_tokens(token, rows.rows, vocab());
  matrix_.logit_of_each(rows.hidden, token, rows.rows, log_prob);
  if (!normalize) return;
  for_each_estimate(rows.hidden, rows.rows, normalizer_, [&](int64_t r, const Row& row, double) {
    log_prob[r] = std::min(log_prob[r] - row.total, 0.0f);
    rows.note(r, row.total, row.error);
  });
}

void PreviewLayer::closer_totals(const LayerRows& rows) const {
  PreviewNormalizer closer = normalizer_;
  closer.depth += kDeeper, closer.spread *= kCloserSpread;
  for_each_estimate(rows.hidden, rows.rows, closer,
                    [&](int64_t r, const Row& row, double) { rows.note(r, row.total, row.error); });
}

void PreviewLayer::totals(const float* hidden, int64_t rows, const PreviewNormalizer& normalizer, float* total,
                          float* share) const {
  for_each_estimate(hidden, rows, normalizer, [&](int64_t r, const Row& row, double of_others) {
    total[r] = row.total, share[r] = static_cast<float>(of_others);
  });
}

}  // namespace sharpbeam
