#include "output/screen_sets.h"

#include <algorithm>

#include "output/scratch.h"

namespace sharpbeam {
namespace {

struct Scratch {
  Buffer all_int8, all_scale;       // of all rows
  Buffer hidden, part_int8, scale;  // of the rows of one cluster
  Buffer scores;                    // [kRowsAtOnce, clusters or tokens]
  std::vector<int32_t> cluster;     // [rows]
  std::vector<int64_t> order;       // [rows]
};

}  // namespace

ScreenSets::ScreenSets(const OutputMatrix& matrix, const ScreenView& screen, bool int8)
    : dim_(matrix.dim()),
      start_(screen.start, screen.start + screen.clusters + 1),
      token_(screen.token, screen.token + screen.start[screen.clusters]),
      norm_(tokens()),
      lost_(tokens()),
      most_norm_(static_cast<size_t>(screen.clusters), 0.0f),
      most_lost_(most_norm_) {
  const int32_t whole[] = {0, static_cast<int32_t>(screen.clusters)};
  clusters_ = Blocks(whole, 1, dim_, int8);
  sets_ = Blocks(screen.start, screen.clusters, dim_, int8);
  for (int64_t t = 0; t < screen.clusters; ++t) clusters_.set_row(0, t, screen.weight + t * dim_, screen.bias[t]);
  const TokenPlaces places(screen, matrix.vocab());
  matrix.read([&](int64_t token) {
    const float* row = matrix.row(token);
    const float norm = static_cast<float>(matrix.norm(row));
    for (const int32_t place : places.of(token)) {
      const int32_t cluster = places.cluster(place);
      norm_.get()[place] = norm;
      const auto lost = static_cast<float>(sets_.set_row(cluster, place - start_[cluster], row, matrix.bias()[token]));
      lost_.get()[place] = lost;
      float &most = most_norm_[static_cast<size_t>(cluster)], &most_lost = most_lost_[static_cast<size_t>(cluster)];
      most = std::max(most, norm), most_lost = std::max(most_lost, lost);
    }
  });
}

float ScreenSets::most_deviation(const ScreenRow& row) const {
  const auto cluster = static_cast<size_t>(row.cluster);
  return row.by_norm() * most_norm_[cluster] + row.by_lost(dim_) * most_lost_[cluster];
}

HiddenRows ScreenSets::quantize(const Kernels& table, const float* hidden, int64_t rows) const {
  if (!int8()) return {hidden, nullptr, nullptr};
  Scratch& own = thread_scratch<Scratch>();
  const int64_t width = padded_int8(dim_);
  int8_t* whole = reserved_int8(own.all_int8, rows * width);
  float* scale = reserved(own.all_scale, rows);
  for (int64_t r = 0; r < rows; ++r) {
    scale[r] = table.quantize_int8(hidden + r * dim_, dim_, whole + r * width);
    std::fill(whole + r * width + dim_, whole + (r + 1) * width, int8_t{0});
  }
  return {hidden, whole, scale};
}

void ScreenSets::choose(const Kernels& table, const HiddenRows& hidden, int64_t rows, int32_t* cluster) const {
  const int64_t stride = round_up(clusters(), kLanes), width = padded_int8(dim_);
  float* scores = reserved(thread_scratch<Scratch>().scores, std::min(rows, kRowsAtOnce) * stride);
  for (int64_t first = 0; first < rows; first += kRowsAtOnce) {
    const int64_t block = std::min(kRowsAtOnce, rows - first);
    clusters_.matmul(table, 0, hidden.from(first, dim_, width), scores, stride, block);
    for (int64_t r = 0; r < block; ++r) {
      float best;
      table.top_k(scores + r * stride, clusters(), 1, &best, cluster + first + r);
    }
  }
}

void ScreenSets::assign(const Kernels& table, const float* hidden, int64_t rows, int32_t* cluster) const {
  choose(table, quantize(table, hidden, rows), rows, cluster);
}

ScreenSets::Batch ScreenSets::prepare(const Kernels& table, const float* hidden, int64_t rows, int64_t more) const {
  Scratch& own = thread_scratch<Scratch>();
  const HiddenRows all = quantize(table, hidden, rows);
  int32_t* cluster = reserved(own.cluster, rows);
  int64_t* order = reserved(own.order, rows);
  choose(table, all, rows, cluster);
  for (int64_t r = 0; r < rows; ++r) order[r] = r;
  std::sort(order, order + rows,
            [&](int64_t a, int64_t b) { return cluster[a] != cluster[b] ? cluster[a] < cluster[b] : a < b; });
  return {hidden, rows, round_up(sets_.most() + more, kLanes), all, cluster, order, 0, 0};
}

bool ScreenSets::next(const Kernels& table, Batch& batch) const {
  batch.first += batch.count;
  if (batch.first == batch.rows) return false;
  const int32_t* cluster = batch.cluster;
  const int64_t* order = batch.order + batch.first;
  const int64_t most = std::min(kRowsAtOnce, batch.rows - batch.first);
  batch.count = 1;
  while (batch.count < most && cluster[order[batch.count]] == cluster[order[0]]) ++batch.count;
  float* logits = reserved(thread_scratch<Scratch>().scores, std::min(batch.rows, kRowsAtOnce) * batch.stride);
  sets_.matmul(table, cluster[order[0]], gather(batch), logits, batch.stride, batch.count);
  return true;
}

HiddenRows ScreenSets::gather(const Batch& batch) const {
  const int64_t* order = batch.order + batch.first;
  const int64_t width = padded_int8(dim_);
  if (batch.count == 1) return batch.all.from(order[0], dim_, width);
  Scratch& own = thread_scratch<Scratch>();
  const int64_t most = std::min(batch.rows, kRowsAtOnce);
  float *hidden = reserved(own.hidden, most * dim_), *scale = reserved(own.scale, most);
  int8_t* whole = reserved_int8(own.part_int8, most * width);
  for (int64_t r = 0; r < batch.count; ++r) {
    std::copy_n(batch.hidden + order[r] * dim_, dim_, hidden + r * dim_);
    if (!int8()) continue;
    std::copy_n(batch.all.int8 + order[r] * width, width, whole + r * width);
    scale[r] = batch.all.scale[order[r]];
  }
  return {hidden, whole, scale};
}

ScreenRow ScreenSets::row(const Kernels& table, const Batch& batch, int64_t r, bool square) const {
  const int64_t index = batch.order[batch.first + r];
  const float* hidden = batch.hidden + index * dim_;
  ScreenRow row{index, batch.cluster[index], hidden, 0.0f, 0.0f, nullptr};
  row.logits = thread_scratch<Scratch>().scores.get() + r * batch.stride;
  if (int8()) row.scale = batch.all.scale[index];
  if (square) table.dot_scores(hidden, hidden, &row.square, 1, dim_);
  return row;
}

}  // namespace sharpbeam
