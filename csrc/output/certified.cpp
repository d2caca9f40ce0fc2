#include "output/certified.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "output/candidates.h"

namespace sharpbeam {
namespace {

constexpr double kUnit = 0x1p-24;                // u
constexpr double kUp = 1.0 + 0x1p-20;            // what bounds are widened by
constexpr double kShare = 64.0;                  // how little of a the words' sizes are
constexpr double kSmall = 1e-20, kLarge = 1e12;  // sizes of coordinates that are bounded
constexpr int64_t kSeedShare = 8;                // of the vocabulary is where seeds are looked for

struct Scratch {
  Buffer coordinates, preview, bytes, near, slack, low, room;
  std::vector<int32_t> place, word;  // candidates: where they stand in the preview, and their ids
  std::vector<int32_t> order;

  void reserve(int64_t vocab) {
    near.reserve(vocab), slack.reserve(vocab), low.reserve(vocab), room.reserve(vocab);
    place.resize(std::max(place.size(), static_cast<size_t>(vocab + kLanes)));
    word.resize(place.size()), order.resize(place.size());
  }
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

void refuse(const std::string& what) { throw std::invalid_argument(what + "; fit the preview again"); }

// Throws std::invalid_argument where the levels are not as PreviewView says.
void check(const PreviewView& view, int64_t vocab, int64_t dim) {
  if (view.levels < 1 || view.levels > kMostLevels) {
    refuse("levels is " + std::to_string(view.levels) + "; it must be from 1 to " + std::to_string(kMostLevels));
  }
  if (view.start[0] != 0 || view.start[view.levels] != vocab) refuse("the levels do not hold the vocabulary");
  for (int64_t l = 0; l < view.levels; ++l) {
    if (view.start[l + 1] <= view.start[l]) refuse("level " + std::to_string(l) + " has no words");
    if (view.coordinates[l] < 1 || view.coordinates[l] > dim) {
      refuse("coordinates is " + std::to_string(view.coordinates[l]) + "; it must be from 1 to the width, " +
             std::to_string(dim));
    }
    if (l > 0 && view.coordinates[l] >= view.coordinates[l - 1]) refuse("coordinates must fall from level to level");
    if (l > 0 && view.coordinates[l] % kInt8Group != 0) {
      refuse("coordinates is " + std::to_string(view.coordinates[l]) + "; all but the largest must be multiples of 4");
    }
  }
  std::vector<bool> seen(static_cast<size_t>(vocab), false);
  for (int64_t i = 0; i < vocab; ++i) {
    const int32_t word = view.words[i];
    if (word < 0 || word >= vocab || seen[static_cast<size_t>(word)]) {
      refuse("words[" + std::to_string(i) + "] is " + std::to_string(word) + "; every word must come once");
    }
    seen[static_cast<size_t>(word)] = true;
  }
}

}  // namespace

struct CertifiedLayer::Level {
  int64_t first, count;  // places of its words
  Int8Matrix preview;
  double mixed, head_norm, most_square;  // most_square: at least the largest G
  double lost_norm, sizes, offsets;      // Frobenius norms over the words of y1 - y1', N and |b| + |q|
  double most_norm, most_lost;           // largest a and |y1 - y1'|
};

// A hidden vector's part of the bounds of a level's words.
struct CertifiedLayer::Edge {
  double by_norm, by_lost;  // K and B
  double spread;            // F
};

struct CertifiedLayer::Row {
  bool bounded;  // false: not finite, too large or too small for the bound; takes the exact way
  float scale;   // of the bytes of its coordinates
  double shift;  // s
  double size;   // |h|
  Edge edge[kMostLevels];
  RoundedHidden rounded;
  const int8_t* bytes;  // of the hidden vector itself
};

CertifiedLayer::CertifiedLayer(Array weight, const float* bias, int64_t vocab, int64_t dim, const PreviewView& view,
                               const Kernels& table, float tolerance, float trust)
    : words_(std::move(weight), bias, vocab, dim, table),
      rounded_(words_),
      constant_(vocab),
      norm_(vocab),
      lost_(vocab),
      square_(kMostLevels * dim),
      rest_(view.rest),
      balance_(view.balance),
      tolerance_(tolerance),
      trust_(trust) {
  check(view, vocab, dim);
  basis_ = Float32Matrix(view.basis, dim, dim, dim, view.shift);
  word_.assign(view.words, view.words + vocab);
  centre_.assign(view.centre, view.centre + dim);
  basis_norm_ = norm(view.basis, dim * dim), shift_norm_ = norm(view.shift, dim);
  centre_norm_ = norm(view.centre, dim);
  for (int64_t l = 0; l < view.levels; ++l) add_level(view, l);
  release_pages(words_.row(0), words_.row(vocab));
}

CertifiedLayer::~CertifiedLayer() = default;

void CertifiedLayer::add_level(const PreviewView& view, int64_t index) {
  const int64_t m = view.coordinates[index], first = view.start[index], count = view.start[index + 1] - first;
  const double mixed = view.mixed[index];
  Level level{first, count, Int8Matrix(count, m), mixed, view.head_norm[index], mixed, 0.0, 0.0, 0.0, 0.0, 0.0};
  for (int64_t k = 0; k < dim(); ++k) {
    const double square = view.square[index * dim() + k];
    square_.get()[index * dim() + k] = above(square);
    level.most_square = std::max(level.most_square, square + mixed);
  }
  double lost_square = 0.0, size_square = 0.0, offset_square = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t word = word_[static_cast<size_t>(first + i)];
    const double* y = view.rows + word * dim();
    double offset = words_.bias()[word];
    for (int64_t k = 0; k < dim(); ++k) offset -= y[k] * view.shift[k];
    constant_.get()[first + i] = static_cast<float>(offset);
    const double lost = level.preview.set_row(i, y), size = norm(words_.row(word), dim()) + centre_norm_;
    const double offsets = std::fabs(static_cast<double>(words_.bias()[word])) + std::fabs(offset);
    const double a = hypot4(norm(y + m, dim() - m), balance_ * norm(y, m), size / kShare, offsets / kShare);
    lost_.get()[first + i] = widened(lost), norm_.get()[first + i] = widened(a);
    lost_square += lost * lost, size_square += size * size, offset_square += offsets * offsets;
    level.most_norm = std::max<double>(level.most_norm, norm_.get()[first + i]);
    level.most_lost = std::max<double>(level.most_lost, lost_.get()[first + i]);
  }
  level.lost_norm = std::sqrt(lost_square), level.sizes = std::sqrt(size_square);
  level.offsets = std::sqrt(offset_square);
  most_coordinates_ = std::max(most_coordinates_, m);
  level_.push_back(std::move(level));
}

CertifiedLayer::Row CertifiedLayer::bounded(const float* hidden, const float* f, int8_t* bytes) const {
  const int64_t most = most_coordinates_;
  Row row{};
  row.scale = words_.table().quantize_int8(f, most, bytes);
  std::fill(bytes + most, bytes + padded_int8(most), int8_t{0});
  double own = 0.0;
  for (int64_t k = 0; k < dim(); ++k) {
    own += static_cast<double>(hidden[k]) * hidden[k];
    row.shift += static_cast<double>(centre_[static_cast<size_t>(k)]) * hidden[k];
  }
  row.size = std::sqrt(own);
  row.bounded = row.size == 0.0 || (row.size > kSmall && row.size < kLarge);
  const double n = chain_error(dim()), e = n * (shift_norm_ + basis_norm_ * row.size);
  const int64_t levels = static_cast<int64_t>(level_.size());
  // The forms are sums of numbers >= 0 in floats: widened by 2^-10, and by what squares below the smallest float lose.
  float* squares = scratch().low.get();
  float forms[kMostLevels];
  for (int64_t k = 0; k < dim(); ++k) squares[k] = f[k] * f[k];
  words_.table().dot_scores(squares, square_.get(), forms, levels, dim());
  double tails[kMostLevels], tail_square = 0.0, moved_square = 0.0, head_square = 0.0;
  for (int64_t l = 0, k = dim(); l < levels; ++l) {
    while (k > level_[static_cast<size_t>(l)].preview.in()) --k, tail_square += static_cast<double>(f[k]) * f[k];
    tails[l] = tail_square;
  }
  for (int64_t l = levels, k = 0; l-- > 0;) {
    const Level& level = level_[static_cast<size_t>(l)];
    for (; k < level.preview.in(); ++k) {
      const double near = static_cast<double>(row.scale) * bytes[k];
      moved_square += (f[k] - near) * (f[k] - near);
      head_square += near * near;
    }
    const double moved = std::sqrt(moved_square), head = std::sqrt(head_square), tail = std::sqrt(tails[l]);
    const double lost = 0x1p-125 * static_cast<double>(dim()) * level.most_square;
    const double form = static_cast<double>(forms[l]) * (1.0 + 0x1p-10) + lost + level.mixed * tails[l];
    row.bounded = row.bounded && (head == 0.0 || head > kSmall) && head < kLarge && tail < kLarge;
    const double shaken = moved + e + 5.0 * kUnit * head;
    row.edge[l].by_norm =
        kUp * trust_ * hypot4(tail + e, shaken / balance_, kShare * (n + rest_) * row.size, kShare * (n + 2.0 * kUnit));
    row.edge[l].by_lost = kUp * trust_ * (1.0 + 6.0 * kUnit) * head;
    row.edge[l].spread =
        kUp * (std::sqrt(form) + std::sqrt(level.most_square) * e + level.lost_norm * head * (1.0 + 6.0 * kUnit) +
               level.head_norm * shaken + (n + rest_) * row.size * level.sizes + (n + 2.0 * kUnit) * level.offsets);
  }
  return row;
}

template <typename Visit>
void CertifiedLayer::for_each_row(const float* hidden, int64_t rows, Visit visit) const {
  const Kernels& table = words_.table();
  const int64_t stride = round_up(vocab(), kLanes), width = padded_int8(most_coordinates_), own = rounded_.padded();
  Scratch& mine = scratch();
  mine.reserve(std::max(vocab(), dim()));
  for_each_block(rows, stride, [&](int64_t first, int64_t count) {
    mine.coordinates.reserve(count * dim());
    mine.preview.reserve(count * stride);
    mine.bytes.reserve(count * (width + own) / static_cast<int64_t>(sizeof(float)) + 1);
    int8_t* whole = reinterpret_cast<int8_t*>(mine.bytes.get());
    int8_t* bytes = whole + count * own;
    Row row[kRowsAtOnce];
    float scale[kRowsAtOnce];
    const float* x = hidden + first * dim();
    basis_.matmul(table, x, dim(), mine.coordinates.get(), dim(), count);
    for (int64_t r = 0; r < count; ++r) {
      row[r] = bounded(x + r * dim(), mine.coordinates.get() + r * dim(), bytes + r * width);
      row[r].rounded = round_hidden(table, x + r * dim(), dim(), own, trust_, whole + r * own);
      row[r].bounded = row[r].bounded && row[r].rounded.sound;
      row[r].bytes = whole + r * own;
      scale[r] = row[r].scale;
    }
    for (const Level& level : level_) {
      level.preview.matmul(table, constant_.get() + level.first, bytes, width, scale, mine.preview.get() + level.first,
                           stride, count);
    }
    for (int64_t r = 0; r < count; ++r) visit(first + r, row[r], mine.preview.get() + r * stride);
  });
}

void CertifiedLayer::compare(const Row& row, const int32_t* place, int64_t count) const {
  Scratch& mine = scratch();
  for (int64_t i = 0; i < count; ++i) mine.word[static_cast<size_t>(i)] = word_[static_cast<size_t>(place[i])];
  rounded_.logits(words_.table(), row.bytes, row.rounded, mine.word.data(), count, mine.near.get(), mine.slack.get());
}

void CertifiedLayer::seed(const Row& row, const float* preview, int64_t count) const {
  // Nearly all of the best words stand in the first levels: a few more would not raise the threshold.
  int64_t among = 0;
  for (const Level& level : level_) {
    if (among >= vocab() / kSeedShare && among >= count) break;
    among += level.count;
  }
  Scratch& mine = scratch();
  words_.table().top_k(preview, among, count, mine.room.get(), mine.place.data());
  compare(row, mine.place.data(), count);
}

int64_t CertifiedLayer::candidates(const Row& row, const float* preview, int64_t k, float total) const {
  const int64_t seeds = std::min(std::max(k, kSeeds), vocab());
  seed(row, preview, seeds);
  const int64_t count = reaching(row, preview, bar_below(threshold(seeds, k), total, row.shift));
  if (count < k) {  // only where the bounds are not trusted
    seed(row, preview, seeds);
    return seeds;
  }
  compare(row, scratch().place.data(), count);
  return count;
}

float CertifiedLayer::threshold(int64_t known, int64_t k) const {
  Scratch& mine = scratch();
  for (int64_t i = 0; i < known; ++i) mine.low.get()[i] = mine.near.get()[i] - mine.slack.get()[i];
  words_.table().top_k(mine.low.get(), known, k, mine.room.get(), mine.order.data());
  return mine.room.get()[k - 1];
}

int64_t CertifiedLayer::reaching(const Row& row, const float* preview, float bar) const {
  Scratch& mine = scratch();
  int64_t left = 0;
  for (size_t l = 0; l < level_.size(); ++l) {
    const Level& level = level_[l];
    int32_t* place = mine.place.data() + left;
    const int64_t found =
        words_.table().find_at_least(preview + level.first, norm_.get() + level.first, lost_.get() + level.first,
                                     above(row.edge[l].by_norm), above(row.edge[l].by_lost), bar, level.count, place);
    for (int64_t i = 0; i < found; ++i) place[i] += static_cast<int32_t>(level.first);
    left += found;
  }
  return left;
}

void CertifiedLayer::rank(const LayerRows& rows, int64_t k, bool normalise, float* log_prob, int32_t* token,
                          float* total, int32_t* left) const {
  check_k(k, vocab());
  for_each_row(rows.hidden, rows.rows, [&](int64_t at, const Row& row, float* preview) {
    const float* x = rows.hidden + at * dim();
    float sum = 0.0f;
    int64_t count = vocab();
    if (row.bounded) {
      float error;
      if (normalise) proven_total(x, row, preview, std::min(kRefined, vocab()), tolerance_, &sum, &error);
      count = candidates(row, preview, k, sum);
      rank_candidates(x, count, k, sum, log_prob + at * k, token + at * k);
    } else if (normalise) {
      exact_topk(words_, x, preview, k, log_prob + at * k, token + at * k, &sum);
    } else {
      words_.all_logits(x, preview);
      rank_logits(words_.table(), preview, vocab(), k, log_prob + at * k, token + at * k);
    }
    if (total != nullptr) total[at] = sum;
    if (left != nullptr) left[at] = static_cast<int32_t>(count);
  });
}

void CertifiedLayer::rank_candidates(const float* hidden, int64_t count, int64_t k, float total, float* log_prob,
                                     int32_t* token) const {
  Scratch& mine = scratch();
  const float bar = bar_below(threshold(count, k), total, 0.0);
  int64_t best = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (mine.near.get()[i] + mine.slack.get()[i] < bar) continue;
    mine.word[static_cast<size_t>(best++)] = mine.word[static_cast<size_t>(i)];
  }
  std::sort(mine.word.begin(), mine.word.begin() + best);
  words_.logits(hidden, mine.word.data(), best, mine.near.get());
  rank_log_probs(words_.table(), mine.near.get(), mine.word.data(), best, total, k, log_prob, token);
}

void CertifiedLayer::score(const LayerRows& rows, const int32_t* token, bool normalise, float* log_prob) const {
  check_tokens(token, rows.rows, vocab());
  if (!normalise) {
    for (int64_t row = 0; row < rows.rows; ++row) {
      words_.logits(rows.hidden + row * dim(), token + row, 1, log_prob + row);
    }
    return;
  }
  for_each_row(rows.hidden, rows.rows, [&](int64_t at, const Row& row, float* preview) {
    const float* x = rows.hidden + at * dim();
    float total, error;
    if (row.bounded) {
      proven_total(x, row, preview, std::min(kRefined, vocab()), tolerance_, &total, &error);
    } else {
      total = exact_total(words_, x, preview);
    }
    words_.logits(x, token + at, 1, log_prob + at);
    log_prob[at] -= total;
  });
}

// Where the truth is what the exact layer's logits add up to. exp and log are the system's; they round in double
// precision, log_sum_exp by 1e-6 of the larger of its answer and 1: both are paid for.
void CertifiedLayer::proven_total(const float* hidden, const Row& row, const float* preview, int64_t refined,
                                  float tolerance, float* total, float* error) const {
  const Kernels& table = words_.table();
  Scratch& mine = scratch();
  float *exact = mine.near.get(), *rest = mine.room.get();
  int32_t* place = mine.place.data();
  table.top_k(preview, vocab(), refined, exact, place);
  const double most = static_cast<double>(exact[refined - 1]);  // at least every preview that is left
  std::copy_n(preview, vocab(), rest);
  for (int64_t i = 0; i < refined; ++i) {
    rest[place[i]] = kNever;
    mine.word[static_cast<size_t>(i)] = word_[static_cast<size_t>(place[i])];
  }
  words_.logits(hidden, mine.word.data(), refined, exact);
  const double known = static_cast<double>(table.log_sum_exp(exact, refined)) - row.shift;
  const double others = static_cast<double>(table.log_sum_exp(rest, vocab())), top = std::max(known, others);
  double first = 0.0, second = 0.0;
  if (refined < vocab()) {
    for (int64_t v = 0; v < vocab(); ++v) rest[v] *= 2.0f;
    for (size_t l = 0; l < level_.size(); ++l) {
      const double squares = static_cast<double>(table.log_sum_exp(rest + level_[l].first, level_[l].count));
      if (squares == -std::numeric_limits<double>::infinity()) continue;
      const Edge& edge = row.edge[l];
      const double d = edge.by_norm * level_[l].most_norm + edge.by_lost * level_[l].most_lost;  // d_max
      const double phi = d < 1e-3 ? 0.51 : (std::expm1(d) - d) / (d * d);
      first += std::exp(0.5 * squares + 1e-6 * (1.0 + std::fabs(squares)) - top) * edge.spread;
      second += std::exp(most - top) * phi * edge.spread * edge.spread;
    }
  }
  const double size = 1.0 + std::fabs(known) + std::fabs(row.shift) + (refined < vocab() ? std::fabs(others) : 0.0);
  const double sum = std::exp(known - top) + std::exp(others - top);
  const double low = std::log(std::max(std::exp(known - top), sum - first)), high = std::log(sum + first + second);
  *error = above(0.5 * (high - low) + 3e-6 * size);
  *total = static_cast<float>(top + 0.5 * (low + high) + row.shift);
  if (*error <= tolerance) return;
  *total = exact_total(words_, hidden, rest);
  *error = above(2e-6 * (1.0 + std::fabs(static_cast<double>(*total))));
}

void CertifiedLayer::log_total(const float* hidden, int64_t rows, int64_t refined, float tolerance, float* total,
                               float* error) const {
  check_k(refined, vocab());
  for_each_row(hidden, rows, [&](int64_t at, const Row& row, float* preview) {
    const float* x = hidden + at * dim();
    if (row.bounded) {
      proven_total(x, row, preview, refined, tolerance, total + at, error + at);
      return;
    }
    total[at] = exact_total(words_, x, preview);
    error[at] = above(2e-6 * (1.0 + std::fabs(static_cast<double>(total[at]))));
  });
}

}  // namespace sharpbeam
