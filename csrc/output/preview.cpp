#include "output/preview.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "output/int8_bounds.h"

namespace sharpbeam {
namespace {

constexpr double kUnit = 0x1p-24;                // u
constexpr double kUp = 1.0 + 0x1p-20;            // what bounds are widened by
constexpr double kShare = 64.0;                  // how little of a the tokens' sizes are
constexpr double kSmall = 1e-20, kLarge = 1e12;  // sizes of coordinates that are bounded
constexpr int64_t kSeedShare = 8;                // of the vocabulary holds nearly all of the best tokens

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

[[noreturn]] void refuse(const std::string& what) { throw std::invalid_argument(what + "; fit the preview again"); }

void check_levels(const PreviewView& view, int64_t vocab, int64_t dim) {
  if (view.levels < 1 || view.levels > kMostLevels) {
    refuse("levels is " + std::to_string(view.levels) + "; it must be from 1 to " + std::to_string(kMostLevels));
  }
  if (view.start[0] != 0 || view.start[view.levels] != vocab) refuse("the levels do not hold the vocabulary");
  for (int64_t l = 0; l < view.levels; ++l) {
    const int32_t coordinates = view.coordinates[l];
    const std::string said = "coordinates is " + std::to_string(coordinates);
    if (view.start[l + 1] <= view.start[l]) refuse("level " + std::to_string(l) + " has no tokens");
    if (coordinates < 1 || coordinates > dim) {
      refuse(said + "; it must be from 1 to the width, " + std::to_string(dim));
    }
    if (l > 0 && coordinates >= view.coordinates[l - 1]) refuse("coordinates must fall from level to level");
    if (l > 0 && coordinates % kInt8Group != 0) {
      refuse(said + "; all but the largest must be multiples of " + std::to_string(kInt8Group));
    }
  }
}

void check_places(const PreviewView& view, int64_t vocab) {
  std::vector<bool> seen(static_cast<size_t>(vocab), false);
  for (int64_t i = 0; i < vocab; ++i) {
    const int32_t token = view.tokens[i];
    if (token < 0 || token >= vocab || seen[static_cast<size_t>(token)]) {
      refuse("tokens[" + std::to_string(i) + "] is " + std::to_string(token) + "; every token must come once");
    }
    seen[static_cast<size_t>(token)] = true;
  }
}

}  // namespace

Preview::Preview(const OutputMatrix& matrix, const PreviewView& view, float trust)
    : constant_(matrix.vocab()),
      norm_(matrix.vocab()),
      lost_(matrix.vocab()),
      square_(kMostLevels * matrix.dim()),
      rest_(view.rest),
      balance_(view.balance),
      trust_(trust) {
  const int64_t vocab = matrix.vocab(), width = matrix.dim();
  check_levels(view, vocab, width);
  check_places(view, vocab);
  basis_ = Float32Matrix(view.basis, width, width, width, view.shift);
  token_.assign(view.tokens, view.tokens + vocab);
  center_.assign(view.center, view.center + width);
  basis_norm_ = norm(view.basis, width * width);
  shift_norm_ = norm(view.shift, width);
  center_norm_ = norm(view.center, width);
  for (int64_t l = 0; l < view.levels; ++l) add_level(matrix, view, l);
}

void Preview::add_level(const OutputMatrix& matrix, const PreviewView& view, int64_t index) {
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
    const int64_t place = first + i, token = token_[static_cast<size_t>(place)];
    const double* y = view.rows + token * dim();
    const double bias = matrix.bias()[token];
    double constant = bias;
    for (int64_t k = 0; k < dim(); ++k) constant -= y[k] * view.shift[k];
    const double lost = level.preview.set_row(i, y);
    const double size = norm(matrix.row(token), dim()) + center_norm_;
    const double offset = std::fabs(bias) + std::fabs(constant);
    const double a = hypot4(norm(y + m, dim() - m), balance_ * norm(y, m), size / kShare, offset / kShare);
    constant_.get()[place] = static_cast<float>(constant);
    lost_.get()[place] = widened(lost);
    norm_.get()[place] = widened(a);
    lost_square += lost * lost;
    size_square += size * size;
    offset_square += offset * offset;
    level.most_norm = std::max<double>(level.most_norm, norm_.get()[place]);
    level.most_lost = std::max<double>(level.most_lost, lost_.get()[place]);
  }
  level.lost_norm = std::sqrt(lost_square);
  level.sizes = std::sqrt(size_square);
  level.offsets = std::sqrt(offset_square);
  most_coordinates_ = std::max(most_coordinates_, m);
  level_.push_back(std::move(level));
}

void Preview::project(const Kernels& table, const float* hidden, int64_t rows, float* coordinates) const {
  basis_.matmul(table, hidden, dim(), coordinates, dim(), rows);
}

void Preview::compute(const Kernels& table, const int8_t* int8, const float* scale, int64_t rows, float* preview,
                      int64_t stride) const {
  for (const Level& level : level_) {
    level.preview.matmul(table, constant_.get() + level.first, int8, int8_width(), scale, preview + level.first, stride,
                         rows);
  }
}

Preview::Squares Preview::squares_of(const float* coordinates, const int8_t* int8, double scale) const {
  Squares squares{};
  const int64_t levels = static_cast<int64_t>(level_.size());
  double tail = 0.0, head = 0.0, moved = 0.0;
  for (int64_t l = 0, k = dim(); l < levels; ++l) {
    for (const int64_t m = level_[static_cast<size_t>(l)].preview.in(); k > m;) {
      --k;
      tail += static_cast<double>(coordinates[k]) * coordinates[k];
    }
    squares.tail[l] = tail;
  }
  for (int64_t l = levels, k = 0; l-- > 0;) {
    for (; k < level_[static_cast<size_t>(l)].preview.in(); ++k) {
      const double near = scale * int8[k];
      moved += (coordinates[k] - near) * (coordinates[k] - near);
      head += near * near;
    }
    squares.head[l] = head;
    squares.moved[l] = moved;
  }
  return squares;
}

PreviewRow::Edge Preview::edge(const Level& level, double tail_square, double head, double moved, float form,
                               double size, double error) const {
  const double n = chain_error(dim()), tail = std::sqrt(tail_square);
  const double shaken = moved + error + 5.0 * kUnit * head;
  // The form is a sum of numbers >= 0 in floats: widened by 2^-10, and by what squares below the smallest float lose.
  const double lost = 0x1p-125 * static_cast<double>(dim()) * level.most_square;
  const double whole = static_cast<double>(form) * (1.0 + 0x1p-10) + lost + level.mixed * tail_square;
  PreviewRow::Edge edge;
  edge.by_norm =
      kUp * trust_ * hypot4(tail + error, shaken / balance_, kShare * (n + rest_) * size, kShare * (n + 2.0 * kUnit));
  edge.by_lost = kUp * trust_ * (1.0 + 6.0 * kUnit) * head;
  edge.spread =
      kUp * (std::sqrt(whole) + std::sqrt(level.most_square) * error + level.lost_norm * head * (1.0 + 6.0 * kUnit) +
             level.head_norm * shaken + (n + rest_) * size * level.sizes + (n + 2.0 * kUnit) * level.offsets);
  return edge;
}

PreviewRow Preview::row(const Kernels& table, const float* hidden, const float* coordinates, int8_t* int8,
                        float* squares) const {
  PreviewRow row{};
  row.scale = table.quantize_int8(coordinates, most_coordinates_, int8);
  std::fill(int8 + most_coordinates_, int8 + int8_width(), int8_t{0});
  double square = 0.0;
  for (int64_t k = 0; k < dim(); ++k) {
    square += static_cast<double>(hidden[k]) * hidden[k];
    row.shift += static_cast<double>(center_[static_cast<size_t>(k)]) * hidden[k];
  }
  row.size = std::sqrt(square);
  row.bounded = row.size == 0.0 || (row.size > kSmall && row.size < kLarge);
  const double error = chain_error(dim()) * (shift_norm_ + basis_norm_ * row.size);
  const Squares sums = squares_of(coordinates, int8, row.scale);
  float forms[kMostLevels];
  for (int64_t k = 0; k < dim(); ++k) squares[k] = coordinates[k] * coordinates[k];
  table.dot_scores(squares, square_.get(), forms, static_cast<int64_t>(level_.size()), dim());
  for (size_t l = 0; l < level_.size(); ++l) {
    const double head = std::sqrt(sums.head[l]), moved = std::sqrt(sums.moved[l]);
    row.bounded = row.bounded && (head == 0.0 || head > kSmall) && head < kLarge && std::sqrt(sums.tail[l]) < kLarge;
    row.edge[l] = edge(level_[l], sums.tail[l], head, moved, forms[l], row.size, error);
  }
  return row;
}

int64_t Preview::likely_places(int64_t least) const {
  const int64_t wanted = std::max(static_cast<int64_t>(token_.size()) / kSeedShare, least);
  int64_t among = 0;
  for (const Level& level : level_) {
    if (among >= wanted) break;
    among += level.count;
  }
  return among;
}

int64_t Preview::find_at_least(const Kernels& table, const PreviewRow& row, const float* preview, float bar,
                               int32_t* place) const {
  int64_t found = 0;
  for (size_t l = 0; l < level_.size(); ++l) {
    const Level& level = level_[l];
    const int64_t more =
        table.find_at_least(preview + level.first, norm_.get() + level.first, lost_.get() + level.first,
                            above(row.edge[l].by_norm), above(row.edge[l].by_lost), bar, level.count, place + found);
    for (int64_t i = found; i < found + more; ++i) place[i] += static_cast<int32_t>(level.first);
    found += more;
  }
  return found;
}

// exp and log are the system's; they round in double precision, log_sum_exp by 1e-6 of the larger of its answer and 1:
// both are paid for.
Preview::Interval Preview::log_total(const Kernels& table, const PreviewRow& row, double known, double most,
                                     float* rest) const {
  const int64_t vocab = static_cast<int64_t>(token_.size());
  const double others = static_cast<double>(table.log_sum_exp(rest, vocab)), top = std::max(known, others);
  const bool all_known = others == -std::numeric_limits<double>::infinity();
  double first = 0.0, second = 0.0;
  for (int64_t v = 0; v < vocab; ++v) rest[v] *= 2.0f;
  for (size_t l = 0; l < level_.size() && !all_known; ++l) {
    const double squares = static_cast<double>(table.log_sum_exp(rest + level_[l].first, level_[l].count));
    if (squares == -std::numeric_limits<double>::infinity()) continue;
    const PreviewRow::Edge& edge = row.edge[l];
    const double d = edge.by_norm * level_[l].most_norm + edge.by_lost * level_[l].most_lost;  // d_max
    const double phi = d < 1e-3 ? 0.51 : (std::expm1(d) - d) / (d * d);
    first += std::exp(0.5 * squares + 1e-6 * (1.0 + std::fabs(squares)) - top) * edge.spread;
    second += std::exp(most - top) * phi * edge.spread * edge.spread;
  }
  const double size = 1.0 + std::fabs(known) + std::fabs(row.shift) + (all_known ? 0.0 : std::fabs(others));
  const double sum = std::exp(known - top) + std::exp(others - top);
  const double low = std::log(std::max(std::exp(known - top), sum - first)), high = std::log(sum + first + second);
  return {static_cast<float>(top + 0.5 * (low + high) + row.shift), above(0.5 * (high - low) + 3e-6 * size)};
}

}  // namespace sharpbeam
