#include "output/screen.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sharpbeam {
namespace {

struct Ranked {
  float log_prob;
  int32_t token;
};
bool better(const Ranked& a, const Ranked& b) {
  return a.log_prob != b.log_prob ? a.log_prob > b.log_prob : a.token < b.token;
}

// What a call needs beside its results. It belongs to the thread, and grows to what the largest call needs.
struct Scratch {
  Buffer hidden, bytes, scale;  // of the rows of one cluster
  Buffer all_bytes, all_scale;  // of all rows
  Buffer scores;                // [kRowsAtOnce, clusters or words]
  Buffer best, exact;
  std::vector<int32_t> place, found;
  std::vector<Ranked> ranked;
  std::vector<int32_t> cluster;  // [rows]
  std::vector<int64_t> order;    // [rows] row numbers, cluster by cluster
  std::vector<char> doubtful;    // [rows]
  std::vector<bool> wanted;      // [vocab] of the union
  std::vector<int32_t> words;    // of the union
};

Scratch& scratch() {
  thread_local Scratch own;
  return own;
}

template <typename T>
T* room(std::vector<T>& of, int64_t size) {
  if (of.size() < static_cast<size_t>(size)) of.resize(static_cast<size_t>(size));
  return of.data();
}

int8_t* bytes_of(Buffer& buffer, int64_t size) {
  buffer.reserve(size / static_cast<int64_t>(sizeof(float)) + 1);
  return reinterpret_cast<int8_t*>(buffer.get());
}

}  // namespace

// A row on its way.
struct ScreenLayer::Row {
  int64_t at;  // its number
  int32_t cluster;
  const float* hidden;
  float scale;    // of its bytes
  float square;   // |hidden|^2, with bytes or a test
  float* logits;  // of its words, rounded with bytes, and of the pieces of the tail
};

ScreenLayer::ScreenLayer(Array weight, const float* bias, int64_t vocab, int64_t dim, const ScreenView& screen,
                         bool bytes, const Kernels& table)
    : words_(std::move(weight), bias, vocab, dim, table),
      doubt_k_(screen.doubt_k),
      margin_(screen.margin),
      by_tail_(screen.by_tail),
      by_far_(screen.by_far),
      offset_(screen.offset),
      loosest_(screen.loosest) {
  check_screen(screen, vocab);
  const int64_t clusters = screen.clusters, packed = screen.start[clusters];
  const int32_t whole[] = {0, static_cast<int32_t>(clusters)};
  clusters_ = Blocks(whole, 1, dim, bytes);
  sets_ = Blocks(screen.start, clusters, dim, bytes);
  start_.assign(screen.start, screen.start + clusters + 1);
  token_.assign(screen.token, screen.token + packed);
  norm_.reserve(packed);
  lost_.reserve(packed);
  for (int32_t t = 0; t < clusters; ++t) clusters_.set_row(0, t, screen.weight + t * dim, screen.bias[t]);
  const WordPlaces places(screen, vocab);
  words_.read([&](int64_t word) {
    const float* row = words_.row(word);
    const float norm = static_cast<float>(words_.norm(row));
    for (int32_t at : places.of(word)) {
      const int32_t t = places.cluster(at);
      norm_.get()[at] = norm;
      lost_.get()[at] = static_cast<float>(sets_.set_row(t, at - start_[t], row, bias[word]));
    }
  });
  if (screen.tail == nullptr) return;
  pieces_ = screen.pieces;
  tail_.reserve(clusters * pieces_ * dim);
  tail_bias_.reserve(clusters * pieces_);
  std::copy_n(screen.tail, clusters * pieces_ * dim, tail_.get());
  std::copy_n(screen.tail_bias, clusters * pieces_, tail_bias_.get());
  if (doubt_k_ == 0) return;
  center_.reserve(clusters * dim);
  center_square_.reserve(clusters);
  std::copy_n(screen.center, clusters * dim, center_.get());
  for (int64_t t = 0; t < clusters; ++t) {
    const float* center = center_.get() + t * dim;
    table.dot_scores(center, center, center_square_.get() + t, 1, dim);
  }
}

HiddenRows ScreenLayer::rounded(const float* hidden, int64_t rows) const {
  if (!sets_.bytes()) return {hidden, nullptr, nullptr};
  Scratch& own = scratch();
  const int64_t width = padded_int8(dim());
  int8_t* bytes = bytes_of(own.all_bytes, rows * width);
  own.all_scale.reserve(rows);
  for (int64_t r = 0; r < rows; ++r) {
    own.all_scale.get()[r] = words_.table().quantize_int8(hidden + r * dim(), dim(), bytes + r * width);
    std::fill(bytes + r * width + dim(), bytes + (r + 1) * width, int8_t{0});
  }
  return {hidden, bytes, own.all_scale.get()};
}

void ScreenLayer::choose(const HiddenRows& hidden, int64_t rows, int32_t* cluster) const {
  const int64_t count = clusters_.size(0), stride = round_up(count, kLanes), width = padded_int8(dim());
  Buffer& scores = scratch().scores;
  scores.reserve(std::min(rows, kRowsAtOnce) * stride);
  for (int64_t first = 0; first < rows; first += kRowsAtOnce) {
    const int64_t block = std::min(kRowsAtOnce, rows - first);
    const HiddenRows part = hidden.from(first, dim(), width);
    clusters_.matmul(words_.table(), 0, part, scores.get(), stride, block);
    for (int64_t r = 0; r < block; ++r) {
      float best;
      words_.table().top_k(scores.get() + r * stride, count, 1, &best, cluster + first + r);
    }
  }
}

void ScreenLayer::assign(const float* hidden, int64_t rows, int32_t* cluster) const {
  choose(rounded(hidden, rows), rows, cluster);
}

template <typename Visit>
void ScreenLayer::for_each_row(const float* hidden, int64_t rows, Visit visit) const {
  Scratch& own = scratch();
  const HiddenRows all = rounded(hidden, rows);
  int32_t* cluster = room(own.cluster, rows);
  int64_t* order = room(own.order, rows);
  choose(all, rows, cluster);
  for (int64_t r = 0; r < rows; ++r) order[r] = r;
  std::sort(order, order + rows,
            [&](int64_t a, int64_t b) { return cluster[a] != cluster[b] ? cluster[a] < cluster[b] : a < b; });
  const int64_t stride = round_up(sets_.most() + pieces_, kLanes), width = padded_int8(dim());
  const int64_t most = std::min(rows, kRowsAtOnce);
  own.scores.reserve(most * stride);
  own.hidden.reserve(most * dim());
  own.scale.reserve(most);
  int8_t* bytes = bytes_of(own.bytes, most * width);
  for (int64_t first = 0; first < rows;) {
    const int32_t t = cluster[order[first]];
    int64_t count = 1;
    while (count < kRowsAtOnce && first + count < rows && cluster[order[first + count]] == t) ++count;
    HiddenRows part{own.hidden.get(), bytes, own.scale.get()};
    if (count == 1) {
      const int64_t at = order[first];
      part = all.from(at, dim(), width);
    } else {
      for (int64_t r = 0; r < count; ++r) {
        const int64_t at = order[first + r];
        std::copy_n(hidden + at * dim(), dim(), own.hidden.get() + r * dim());
        if (!sets_.bytes()) continue;
        std::copy_n(all.bytes + at * width, width, bytes + r * width);
        own.scale.get()[r] = all.scale[at];
      }
    }
    sets_.matmul(words_.table(), t, part, own.scores.get(), stride, count);
    for (int64_t r = 0; r < count; ++r) {
      const int64_t at = order[first + r];
      const float* own_hidden = hidden + at * dim();
      float scale = 0.0f, square = 0.0f;
      if (sets_.bytes()) scale = all.scale[at];
      if (sets_.bytes() || doubt_k_ > 0) words_.table().dot_scores(own_hidden, own_hidden, &square, 1, dim());
      visit(Row{at, t, own_hidden, scale, square, own.scores.get() + r * stride});
    }
    first += count;
  }
}

float ScreenLayer::tail_of(const Row& row) const {
  if (pieces_ == 0) return kNever;
  float* logits = row.logits + size(row.cluster);
  const float* bias = tail_bias_.get() + row.cluster * pieces_;
  words_.table().dot_scores(row.hidden, tail_.get() + row.cluster * pieces_ * dim(), logits, pieces_, dim());
  for (int64_t i = 0; i < pieces_; ++i) logits[i] += bias[i];
  return words_.table().log_sum_exp(logits, pieces_);
}

float ScreenLayer::distance(const Row& row) const {
  float along;
  words_.table().dot_scores(row.hidden, center_.get() + row.cluster * dim(), &along, 1, dim());
  const float gap = row.square - 2.0f * along + center_square_.get()[row.cluster];
  return gap > 0.0f ? std::sqrt(gap) : 0.0f;
}

bool ScreenLayer::doubts_words(const Row& row, const Best& top, float tail) const {
  const float kth = top.count < doubt_k_ ? kNever : top.logit[doubt_k_ - 1];
  const float bar = std::max(kth, top.logit[0] - margin_);
  return !(bar - by_tail_ * tail - by_far_ * distance(row) >= offset_);
}

void ScreenLayer::signs(const float* hidden, int64_t rows, float* signs) const {
  if (doubt_k_ == 0) throw std::invalid_argument("doubt_k is 0; the signs are those of a test, which needs it");
  for_each_row(hidden, rows, [&](const Row& row) {
    const Best top = best(row, 1);
    float *to = signs + row.at * kSigns, ignored;
    to[0] = top.logit[0];
    to[1] = top.count < doubt_k_ ? kNever : top.logit[doubt_k_ - 1];
    to[2] = tail_of(row);
    to[3] = distance(row);
    int32_t word;
    to[4] = rank(row, top, 1, &ignored, &word);
  });
}

ScreenLayer::Best ScreenLayer::best(const Row& row, int64_t k) const {
  Scratch& own = scratch();
  const int64_t wanted = std::max(doubt_k_, sets_.bytes() ? std::max(k, kRefined) : int64_t{0});
  if (wanted == 0) return {nullptr, nullptr, 0};
  const int64_t count = size(row.cluster), found = std::min(wanted, count);
  own.best.reserve(found);
  const Best top{own.best.get(), room(own.place, found), found};
  words_.table().top_k(row.logits, count, found, top.logit, top.place);
  return top;
}

float ScreenLayer::total_of(const Row& row) const {
  return words_.table().log_sum_exp(row.logits, size(row.cluster) + pieces_);
}

float ScreenLayer::rank(const Row& row, const Best& top, int64_t k, float* log_prob, int32_t* token) const {
  return sets_.bytes() ? rank_bytes(row, top, k, log_prob, token) : rank_floats(row, k, log_prob, token);
}

float ScreenLayer::rank_floats(const Row& row, int64_t k, float* log_prob, int32_t* token) const {
  const int64_t count = size(row.cluster), given = std::min(k, count);
  const float total = total_of(row);
  // Normalised before they are ranked, as in the exact output_layer.
  for (int64_t i = 0; i < count; ++i) row.logits[i] -= total;
  words_.table().top_k(row.logits, count, given, log_prob, token);
  for (int64_t i = 0; i < given; ++i) token[i] = words(row.cluster)[token[i]];
  return total;
}

float ScreenLayer::rank_bytes(const Row& row, const Best& top, int64_t k, float* log_prob, int32_t* token) const {
  Scratch& own = scratch();
  const int64_t count = size(row.cluster);
  const int32_t* names = words(row.cluster);
  own.exact.reserve(count);
  float* exact = own.exact.get();
  int32_t* found = room(own.found, 2 * count + kLanes);
  // Exact logits for the best and for the others that may be among the k best. The normaliser takes the kRefined best
  // ones, whatever k is.
  const Best seeds{top.logit, top.place, std::min(top.count, std::max(k, kRefined))};
  for (int64_t i = 0; i < seeds.count; ++i) {
    found[i] = names[seeds.place[i]];
    row.logits[seeds.place[i]] = kNever;
  }
  const int64_t listed =
      seeds.count + (seeds.count < count ? reaching(row, seeds, k, found + seeds.count) : int64_t{0});
  words_.logits(row.hidden, found, listed, exact);
  for (int64_t i = 0; i < seeds.count; ++i) row.logits[seeds.place[i]] = i < kRefined ? exact[i] : seeds.logit[i];
  const float total = total_of(row);
  Ranked* ranked = room(own.ranked, listed);
  for (int64_t i = 0; i < listed; ++i) {
    const float log_prob_of = exact[i] - total;
    ranked[i] = {log_prob_of == log_prob_of ? log_prob_of : kNever, found[i]};
  }
  const int64_t given = std::min(k, listed);
  std::partial_sort(ranked, ranked + given, ranked + listed, better);
  for (int64_t i = 0; i < given; ++i) {
    log_prob[i] = ranked[i].log_prob;
    token[i] = ranked[i].token;
  }
  return total;
}

// The words, of those that are not marked with -inf, whose exact logit may be as high as that of the k-th best seed:
// its own may be lower than it seems, and theirs higher.
int64_t ScreenLayer::reaching(const Row& row, const Best& seeds, int64_t k, int32_t* found) const {
  const Kernels& table = words_.table();
  const int32_t* names = words(row.cluster);
  const float *norm = norm_.get() + start_[row.cluster], *lost = lost_.get() + start_[row.cluster];
  // A coordinate's rounding is uniform over one scale, so its standard deviation is scale / sqrt(12).
  const float by_norm = kSure * row.scale / std::sqrt(12.0f);
  const float by_lost = kSure * std::sqrt(row.square / static_cast<float>(dim()));
  float bar = std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < k; ++i) {
    const int32_t at = seeds.place[i];
    bar = std::min(bar, seeds.logit[i] - (by_norm * norm[at] + by_lost * lost[at]));
  }
  const int64_t all = table.find_at_least(row.logits, norm, lost, by_norm, by_lost, bar, size(row.cluster), found);
  int64_t kept = 0;
  for (int64_t i = 0; i < all; ++i) {
    if (row.logits[found[i]] != kNever) found[kept++] = names[found[i]];
  }
  return kept;
}

int64_t ScreenLayer::gather(const std::vector<char>& doubtful, int64_t rows, int32_t* numbers) const {
  int64_t found = 0;
  for (int64_t r = 0; r < rows; ++r) {
    if (doubtful[static_cast<size_t>(r)]) numbers[found++] = static_cast<int32_t>(r);
  }
  seen_.fetch_add(rows, std::memory_order_relaxed);
  if (found) doubtful_.fetch_add(found, std::memory_order_relaxed);
  return found;
}

int64_t ScreenLayer::topk(const float* hidden, int64_t rows, int64_t k, float* log_prob, int32_t* token,
                          int32_t* doubtful) const {
  check_k(k, vocab());
  char* doubted = room(scratch().doubtful, rows);
  for_each_row(hidden, rows, [&](const Row& row) {
    float* to = log_prob + row.at * k;
    int32_t* names = token + row.at * k;
    const int64_t given = std::min(k, size(row.cluster));
    std::fill(to + given, to + k, kNever);
    std::fill(names + given, names + k, 0);
    const float tail = tail_of(row);
    const Best top = best(row, k);
    doubted[row.at] = doubt_k_ > 0 && doubts_words(row, top, tail);
    if (doubted[row.at]) return;
    const float total = rank(row, top, k, to, names);
    doubted[row.at] = doubt_k_ > 0 && doubts_total(tail, total);
  });
  return gather(scratch().doubtful, rows, doubtful);
}

int64_t ScreenLayer::log_prob(const float* hidden, const int32_t* token, int64_t rows, float* log_prob,
                              int32_t* doubtful) const {
  check_tokens(token, rows, vocab());
  char* doubted = room(scratch().doubtful, rows);
  for_each_row(hidden, rows, [&](const Row& row) {
    float ignored;
    int32_t word;
    const float tail = tail_of(row);
    const Best top = best(row, 1);
    doubted[row.at] = doubt_k_ > 0 && doubts_words(row, top, tail);
    if (doubted[row.at]) return;
    const float total = rank(row, top, 1, &ignored, &word);
    doubted[row.at] = doubt_k_ > 0 && doubts_total(tail, total);
    if (doubted[row.at]) return;
    const int32_t* names = words(row.cluster);
    if (pieces_ > 0 || std::binary_search(names, names + size(row.cluster), token[row.at])) {
      words_.logits(row.hidden, token + row.at, 1, log_prob + row.at);
      log_prob[row.at] -= total;
    } else {
      log_prob[row.at] = kNever;
    }
  });
  return gather(scratch().doubtful, rows, doubtful);
}

void ScreenLayer::topk_union(const float* hidden, int64_t rows, int64_t k, float* log_prob, int32_t* token) const {
  check_k(k, vocab());
  Scratch& own = scratch();
  const Kernels& table = words_.table();
  int32_t* cluster = room(own.cluster, rows);
  assign(hidden, rows, cluster);
  own.wanted.assign(static_cast<size_t>(vocab()), false);  // the mask, then its compaction
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < size(cluster[r]); ++i) own.wanted[static_cast<size_t>(words(cluster[r])[i])] = true;
  }
  own.words.clear();
  for (int32_t word = 0; word < vocab(); ++word) {
    if (own.wanted[static_cast<size_t>(word)]) own.words.push_back(word);
  }
  const int32_t whole[] = {0, static_cast<int32_t>(own.words.size())};
  const int64_t count = whole[1], stride = round_up(count, kLanes), given = std::min(k, count);
  if (rows == 0) return;
  Blocks block(whole, 1, dim(), false);
  for (int64_t i = 0; i < count; ++i) {
    const int32_t word = own.words[static_cast<size_t>(i)];
    block.set_row(0, i, words_.row(word), words_.bias()[word]);
  }
  own.scores.reserve(std::min(rows, kRowsAtOnce) * stride);
  for (int64_t first = 0; first < rows; first += kRowsAtOnce) {
    const int64_t some = std::min(kRowsAtOnce, rows - first);
    block.matmul(table, 0, {hidden + first * dim(), nullptr, nullptr}, own.scores.get(), stride, some);
    for (int64_t r = 0; r < some; ++r) {
      float *logits = own.scores.get() + r * stride, *to = log_prob + (first + r) * k;
      int32_t* names = token + (first + r) * k;
      const float total = table.log_sum_exp(logits, count);
      for (int64_t i = 0; i < count; ++i) logits[i] -= total;
      table.top_k(logits, count, given, to, names);
      for (int64_t i = 0; i < given; ++i) names[i] = own.words[static_cast<size_t>(names[i])];
      std::fill(to + given, to + k, kNever);
      std::fill(names + given, names + k, 0);
    }
  }
}

}  // namespace sharpbeam
