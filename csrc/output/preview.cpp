#include "output/preview.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "output/floors.h"
#include "output/scratch.h"

namespace sharpbeam {
namespace {

constexpr int64_t kExactShare = 8;  // more than one token in so many left: take all of them
constexpr int64_t kMostSeeds = 64;
constexpr double kLeastRest = 0x1p-12;  // of a sum, next to its best token: a row that seems sure may lack one
constexpr float kMostTotal = std::numeric_limits<float>::max();
constexpr double kNone = -std::numeric_limits<double>::infinity();

struct Scratch {
  Buffer coordinates, preview, top, numbers, near, slack, exact, best;
  std::vector<int32_t> panel, place, left, token, order;
  std::vector<double> score;
};

Scratch& scratch() { return thread_scratch<Scratch>(); }

}  // namespace

struct PreviewLayer::Row {
  PreviewBound bound;
  const int8_t* numbers;  // the coordinates in int8
  const float* hidden;
  float *preview, *top;
  float total;   // what is taken off logits
  float error;   // how far it may be off
  double floor;  // of the log probabilities that matter
  float best;    // logit among the first seeds: a row's total must not depend on how many the search wants
  int64_t seeds;
  float seed[kMostSeeds];  // logits
  int32_t seed_token[kMostSeeds];

  bool sound() const { return bound.sound; }
};

PreviewLayer::PreviewLayer(Array weight, Array bias, int64_t vocab, int64_t dim, const LowBitView& view,
                           Normalizer normalizer, bool estimates, const Kernels& table)
    : matrix_(weight, bias.get(), vocab, dim, table),
      preview_(matrix_, view),
      normalizer_(normalizer),
      estimates_(estimates),
      exact_(std::move(weight), std::move(bias), vocab, dim, table, true) {
  release_pages(matrix_.row(0), matrix_.row(vocab));
}

template <typename Visit>
void PreviewLayer::for_each_block_of_rows(const float* hidden, int64_t rows, const int32_t* request,
                                          Visit visit) const {
  const Kernels& table = matrix_.table();
  const int64_t stride = preview_.places(), width = preview_.depth();
  Scratch& mine = scratch();
  const int64_t most = std::max(vocab(), stride) + kLanes;
  for (Buffer* each : {&mine.near, &mine.slack, &mine.exact, &mine.best}) each->reserve(most);
  for (auto* each : {&mine.panel, &mine.place, &mine.token, &mine.order}) reserved(*each, most);
  const auto compute = [&](int64_t first, int64_t count) {
    const float* x = hidden + first * dim();
    float* coordinates = reserved(mine.coordinates, count * dim());
    float* preview = reserved(mine.preview, count * stride);
    float* top = reserved(mine.top, count * preview_.panels());
    int8_t* numbers = reserved_int8(mine.numbers, count * width);
    Row row[kRowsAtOnce];
    float scale[kRowsAtOnce];
    preview_.coordinates(table, x, count, coordinates);
    for (int64_t r = 0; r < count; ++r) {
      row[r].hidden = x + r * dim();
      row[r].bound = preview_.bound(table, row[r].hidden, coordinates + r * dim(), numbers + r * width);
      row[r].numbers = numbers + r * width;
      row[r].preview = preview + r * stride, row[r].top = top + r * preview_.panels();
      row[r].total = row[r].error = 0.0f, row[r].floor = kNone, row[r].seeds = 0;
      scale[r] = row[r].bound.scale;
    }
    preview_.compute(table, numbers, scale, count, preview, top);
    visit(first, count, row);
  };
  // Fewer rows than of a scan: weights are a quarter, and previews are gone through four times.
  for_each_block(rows, 4 * stride, compute, request);
}

void PreviewLayer::seed(Row& row, int64_t seeds) const {
  Scratch& mine = scratch();
  const Kernels& table = matrix_.table();
  table.top_k(row.top, preview_.panels(), seeds, mine.best.get(), mine.panel.data());
  row.seeds = 0;
  for (int64_t i = 0; i < seeds; ++i) {
    const int64_t first = mine.panel[static_cast<size_t>(i)] * kPanel;
    float best;
    int32_t at;
    table.top_k(row.preview + first, kPanel, 1, &best, &at);
    const int32_t token = preview_.token(first + at);
    if (token >= 0) row.seed_token[row.seeds++] = token;
  }
  matrix_.logits(row.hidden, row.seed_token, row.seeds, row.seed);
  // Of the first ones: a row's total must not depend on how many the search wants.
  row.best = row.seeds > 0 ? *std::max_element(row.seed, row.seed + std::min(row.seeds, kSeeds)) : kNever;
}

int64_t PreviewLayer::reaching(const Row& row, float bar) const {
  Scratch& mine = scratch();
  const Kernels& table = matrix_.table();
  int32_t* left = reserved(mine.left, preview_.places() + kLanes);
  int64_t found = 0;
  preview_.for_each_level(table, row.bound, row.top, 1.0f, bar, mine.panel.data(),
                          [&](const int32_t* panels, int64_t count, const PreviewBound::Edge& edge) {
                            found += preview_.find_in_panels(table, edge, panels, count, row.preview, 1.0f, bar,
                                                             left + found);
                          });
  return std::remove_if(left, left + found, [&](int32_t place) { return preview_.token(place) < 0; }) - left;
}

void PreviewLayer::estimate(Row& row, const Normalizer& normalizer, ProvenCounts& counts) const {
  Scratch& mine = scratch();
  const Kernels& table = matrix_.table();
  const auto take_exact = [&] { row.total = matrix_.log_total(row.hidden, mine.exact.get()), row.error = 0.0f; };
  if (!row.sound() || !row.bound.usual) return take_exact();
  const float best = static_cast<float>(row.best - row.bound.shift), share = normalizer.share;
  float* tops = mine.best.get();
  std::copy_n(row.top, preview_.panels(), tops);
  int32_t *left = reserved(mine.left, preview_.places() + kLanes), *panels = mine.panel.data();
  int64_t refined = 0, opened = 0;
  preview_.for_each_level(table, row.bound, row.top, share, best - normalizer.summed, panels,
                          [&](const int32_t* some, int64_t count, const PreviewBound::Edge& edge) {
                            refined += preview_.find_in_panels(table, edge, some, count, row.preview, share,
                                                               best - normalizer.refined, left + refined);
                            opened += count;
                          });
  counts.refined += refined;
  if (refined == 0) return take_exact();
  const float top = *std::max_element(tops, tops + preview_.panels());
  float* kept = mine.near.get();
  for (int64_t i = 0; i < refined; ++i) kept[i] = std::exchange(row.preview[left[i]], kNever);
  const double summed = table.sum_exp_in_panels(row.preview, top, panels, opened);
  for (int64_t i = 0; i < refined; ++i) row.preview[left[i]] = kept[i];
  for (int64_t i = 0; i < opened; ++i) tops[panels[i]] = kNever;
  const double known = refined_total(row, normalizer, refined, counts), shift = row.bound.shift - known;
  const double others = normalizer.near * summed * std::exp(top + shift) +
                        normalizer.far * std::exp(table.log_sum_exp(tops, preview_.panels()) + shift);
  row.total = static_cast<float>(known + std::log1p(others));
  if (!(row.total >= row.best && row.total <= kMostTotal)) return take_exact();  // a preview is too far off
  const double rest = std::max(0.0, -std::expm1(static_cast<double>(row.best) - row.total)) + kLeastRest;
  row.error = above(normalizer.spread * others / (1.0 + others) + normalizer.unsure * std::sqrt(std::sqrt(rest)));
}

double PreviewLayer::refined_total(const Row& row, const Normalizer& normalizer, int64_t count,
                                   ProvenCounts& counts) const {
  Scratch& mine = scratch();
  float* near = mine.near.get();
  preview_.refine(matrix_.table(), row.bound, row.numbers, row.preview, mine.left.data(), count, near,
                  mine.slack.get());
  // The very best ones must be nearer.
  const float shift = static_cast<float>(row.bound.shift), bar = row.best - normalizer.exact;
  int64_t exact = 0;
  for (int64_t i = 0; i < count; ++i) {
    near[i] += shift;
    if (near[i] < bar || preview_.token(mine.left[static_cast<size_t>(i)]) < 0) continue;
    mine.order[static_cast<size_t>(exact)] = static_cast<int32_t>(i);
    mine.token[static_cast<size_t>(exact++)] = preview_.token(mine.left[static_cast<size_t>(i)]);
  }
  counts.exact += exact;
  matrix_.logits(row.hidden, mine.token.data(), exact, mine.slack.get());
  for (int64_t i = 0; i < exact; ++i) near[mine.order[static_cast<size_t>(i)]] = mine.slack.get()[i];
  return matrix_.table().log_sum_exp(near, count);
}

// Of the `count` tokens in the scratch: those of seeds are known.
void PreviewLayer::exact_logits(const Row& row, int64_t count, float* logits) const {
  Scratch& mine = scratch();
  int32_t *others = mine.place.data(), *at = mine.order.data();
  int64_t unknown = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t token = mine.token[static_cast<size_t>(i)];
    const int64_t seed = std::find(row.seed_token, row.seed_token + row.seeds, token) - row.seed_token;
    if (seed < row.seeds) {
      logits[i] = row.seed[seed];
    } else {
      at[unknown] = static_cast<int32_t>(i), others[unknown++] = token;
    }
  }
  float* found = mine.slack.get();
  matrix_.logits(row.hidden, others, unknown, found);
  for (int64_t i = 0; i < unknown; ++i) logits[at[i]] = found[i];
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

void PreviewLayer::rank_row(const Row& row, int64_t k, bool normalize, float* log_prob, int32_t* token,
                            ProvenCounts& counts) const {
  Scratch& mine = scratch();
  ++counts.rows;
  const auto all = [&] {
    ++counts.whole;
    if (!row.sound()) {
      matrix_.rank_all(row.hidden, normalize, k, mine.exact.get(), log_prob, token);
      return;
    }
    std::iota(mine.token.begin(), mine.token.begin() + vocab(), 0);
    matrix_.all_logits(row.hidden, mine.exact.get());
    rank_log_probs(matrix_.table(), mine.exact.get(), mine.token.data(), vocab(), row.total, k, log_prob, token);
  };
  // The estimate of a normalizer may be a little below the best logit, but no token is likelier than 1.
  const auto clamp = [&](int64_t count) {
    for (int64_t i = 0; normalize && i < count; ++i) log_prob[i] = std::min(log_prob[i], 0.0f);
  };
  if (!row.sound()) return all();
  // In logits. The bar of a beam's floor is a little lower than it is: sums of scores are rounded.
  float known = kNever;
  if (row.floor > kNone) {
    known = -above(-(row.floor + row.total) + 1e-6 * (1.0 + std::fabs(row.floor) + std::fabs(row.total)));
  } else if (row.seeds >= k) {
    float* seeds = mine.exact.get();
    std::copy_n(row.seed, row.seeds, seeds);
    std::nth_element(seeds, seeds + (k - 1), seeds + row.seeds, std::greater<float>());
    known = seeds[k - 1];
  }
  const int64_t left = reaching(row, bar_below(known, row.total, row.bound.shift));
  counts.previewed += left;
  // Again by all coordinates: few tokens reach the bar, and a lower bound of the k-th best may raise it.
  float *near = mine.near.get(), *slack = mine.slack.get();
  preview_.refine(matrix_.table(), row.bound, row.numbers, row.preview, mine.left.data(), left, near, slack);
  if (left >= k && row.floor == kNone) {
    float* low = mine.exact.get();
    for (int64_t i = 0; i < left; ++i) low[i] = near[i] - slack[i];
    matrix_.table().top_k(low, left, k, mine.best.get(), mine.order.data());
    known = std::max(known, -above(-(mine.best.get()[k - 1] + row.bound.shift)));
  }
  const float bar = bar_below(known, row.total, row.bound.shift);
  int64_t few = 0;
  for (int64_t i = 0; i < left; ++i) {
    if (!(near[i] + slack[i] < bar)) {
      mine.token[static_cast<size_t>(few++)] = preview_.token(mine.left[static_cast<size_t>(i)]);
    }
  }
  if (few * kExactShare > vocab() && row.floor == kNone) return all(), clamp(k);
  counts.compared += few;
  counts.skipped += few == 0;
  std::sort(mine.token.begin(), mine.token.begin() + few);
  exact_logits(row, few, near);
  const int64_t some = std::min(few, k);
  if (some > 0) rank_log_probs(matrix_.table(), near, mine.token.data(), few, row.total, some, log_prob, token);
  clamp(some);
  for (int64_t i = some; i < k; ++i) log_prob[i] = kNever, token[i] = 0;
}

void PreviewLayer::rank(const LayerRows& rows, int64_t k, bool normalize, float* log_prob, int32_t* token,
                        float* totals, ProvenCounts& counts) const {
  check_k(k, vocab());
  const int64_t wanted = rows.beam == nullptr ? k : rows.beam->width;
  const int64_t seeds = std::min({std::max(wanted, kSeeds), preview_.panels(), kMostSeeds});
  for_each_block_of_rows(rows.hidden, rows.rows, rows.request, [&](int64_t first, int64_t count, Row* row) {
    for (int64_t r = 0; r < count; ++r) {
      if (row[r].sound()) seed(row[r], seeds);
      if (normalize) estimate(row[r], normalizer_, counts);
      if (totals != nullptr) totals[first + r] = row[r].total;
      rows.note(first + r, row[r].total, row[r].error);
    }
    if (rows.beam != nullptr && rows.request != nullptr) set_floors(row, first, count, rows);
    for (int64_t r = 0; rows.floor != nullptr && r < count; ++r) {
      row[r].floor = std::max(row[r].floor, static_cast<double>(rows.floor[first + r]));
    }
    for (int64_t r = 0; r < count; ++r) {
      const int64_t at = (first + r) * k;
      rank_row(row[r], k, normalize, log_prob + at, token + at, counts);
    }
  });
}

void PreviewLayer::score(const LayerRows& rows, const int32_t* token, bool normalize, float* log_prob) const {
  check_tokens(token, rows.rows, vocab());
  matrix_.logit_of_each(rows.hidden, token, rows.rows, log_prob);
  if (!normalize) return;
  ProvenCounts counts;
  for_each_block_of_rows(rows.hidden, rows.rows, nullptr, [&](int64_t first, int64_t count, Row* row) {
    for (int64_t r = 0; r < count; ++r) {
      if (row[r].sound()) seed(row[r], std::min(kSeeds, preview_.panels()));
      estimate(row[r], normalizer_, counts);
      log_prob[first + r] = std::min(log_prob[first + r] - row[r].total, 0.0f);
      rows.note(first + r, row[r].total, row[r].error);
    }
  });
}

void PreviewLayer::totals(const float* hidden, int64_t rows, const Normalizer& normalizer, float* totals,
                          ProvenCounts& counts) const {
  for_each_block_of_rows(hidden, rows, nullptr, [&](int64_t first, int64_t count, Row* row) {
    for (int64_t r = 0; r < count; ++r) {
      if (row[r].sound()) seed(row[r], std::min(kSeeds, preview_.panels()));
      estimate(row[r], normalizer, counts);
      totals[first + r] = row[r].total;
    }
  });
}

}  // namespace sharpbeam
