#include "output/preview_codes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

#include "output/int8_bounds.h"

namespace sharpbeam {
namespace {

constexpr double kUnit = 0x1p-24;                // u
constexpr double kUp = 1.0 + 0x1p-20;            // what bounds are widened by
constexpr double kShare = 64.0;                  // how little of k the tokens' sizes are
constexpr double kSmall = 1e-20, kLarge = 1e12;  // sizes of coordinates that are bounded
constexpr double kUsual = 16.0;                  // times the square of a fitted vector: a row whose sums are estimated
constexpr double kHalves = 0.02, kWhole = 0.1;   // t, and that of all coordinates: the bound changes little with it

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

// Throws std::invalid_argument where the view is not as its comments say.
void check(const LowBitView& view, int64_t vocab, int64_t dim) {
  if (view.levels < 1 || view.levels > kMostPreviewLevels) {
    refuse("levels is " + std::to_string(view.levels) + "; it must be from 1 to " + std::to_string(kMostPreviewLevels));
  }
  if (view.start[0] != 0 || view.start[view.levels] != vocab) refuse("the levels do not hold the vocabulary");
  for (int64_t l = 0; l < view.levels; ++l) {
    if (view.start[l + 1] <= view.start[l]) refuse("level " + std::to_string(l) + " has no tokens");
    const int32_t m = view.coordinates[l];
    if (m < 8 || m % 8 != 0 || m > round_up(dim, 8) || m > kMaxPreviewDepth) {
      refuse("coordinates is " + std::to_string(m) + "; it must be a multiple of 8, at most the width, " +
             std::to_string(dim));
    }
    if (l > 0 && m >= view.coordinates[l - 1]) refuse("coordinates must fall from level to level");
  }
  const auto trusted = [](double trust) { return trust > 0.0 && trust <= 1.0; };
  if (!trusted(view.whole_trust) || !std::all_of(view.trust, view.trust + view.levels, trusted)) {
    refuse("trust must be above 0 and at most 1");
  }
  for (int64_t k = 0; k < dim; ++k) {
    if (!(view.balance[k] > kSmall && view.balance[k] < kLarge)) refuse("balance must be positive and finite");
  }
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

PreviewCodes::PreviewCodes(const OutputMatrix& matrix, const LowBitView& view)
    : remainder_(view.remainder), whole_trust_(view.whole_trust) {
  const int64_t vocab = matrix.vocab(), dim = matrix.dim();
  check(view, vocab, dim);
  basis_ = Float32Matrix(view.basis, dim, dim, dim, view.shift);
  center_.assign(view.center, view.center + dim);
  balance_.assign(view.balance, view.balance + dim);
  most_balance_ = *std::max_element(balance_.begin(), balance_.end());
  fitted_square_ =
      std::accumulate(balance_.begin(), balance_.end(), 0.0, [](double sum, double t) { return sum + 1.0 / (t * t); });
  basis_norm_ = norm(view.basis, dim * dim), shift_norm_ = norm(view.shift, dim);
  for (int64_t l = 0; l < view.levels; ++l) panels_ += (view.start[l + 1] - view.start[l] + kPanel - 1) / kPanel;
  token_.assign(static_cast<size_t>(panels_ * kPanel), -1);
  whole_.resize(token_.size());
  for (Buffer* each : {&slack_, &lost_}) {
    each->reserve(panels_ * kPanel);
    std::fill_n(each->get(), panels_ * kPanel, 0.0f);
  }
  for (Buffer* each : {&panel_slack_, &panel_lost_}) each->reserve(panels_);
  for (int64_t l = 0, first = 0; l < view.levels; ++l) {
    const int64_t panels = (view.start[l + 1] - view.start[l] + kPanel - 1) / kPanel, m = view.coordinates[l];
    Int4Rows rest(panels * kPanel, dim - std::min(m, dim));
    depth_ = std::max(depth_, m + rest.padded());
    level_.push_back({first, Int4Panels(panels, m), std::move(rest), static_cast<float>(view.trust[l])});
    first += panels;
    add_level(matrix, view, l);
  }
  for (int64_t p = 0; p < panels_; ++p) {
    panel_slack_.get()[p] = *std::max_element(slack_.get() + p * kPanel, slack_.get() + (p + 1) * kPanel);
    panel_lost_.get()[p] = *std::max_element(lost_.get() + p * kPanel, lost_.get() + (p + 1) * kPanel);
  }
}

void PreviewCodes::add_level(const OutputMatrix& matrix, const LowBitView& view, int64_t index) {
  Level& level = level_[static_cast<size_t>(index)];
  const int64_t m = view.coordinates[index], kept = std::min(m, matrix.dim()), first = view.start[index];
  const double center_norm = norm(view.center, matrix.dim());
  std::vector<double> head(static_cast<size_t>(m), 0.0), balance(static_cast<size_t>(m), 1.0);
  std::copy_n(balance_.data(), kept, balance.data());
  for (int64_t i = 0; i < view.start[index + 1] - first; ++i) {
    const int64_t token = view.tokens[first + i], place = level.first * kPanel + i;
    const double* y = view.rows + token * matrix.dim();
    double offset = matrix.bias()[token], rest = 0.0;
    for (int64_t k = 0; k < matrix.dim(); ++k) offset -= y[k] * view.shift[k];
    for (int64_t k = kept; k < matrix.dim(); ++k) rest += y[k] / balance_[k] * (y[k] / balance_[k]);
    std::copy_n(y, kept, head.data());
    const double lost = level.panels.set_row(i, head.data(), balance.data(), static_cast<float>(offset));
    const Int4Row others = level.rest.set_row(i, y + kept, balance_.data() + kept);
    const double size = norm(matrix.row(token), matrix.dim()) + center_norm;
    const double offsets = std::fabs(static_cast<double>(matrix.bias()[token])) + std::fabs(offset);
    const double slack = hypot4(std::sqrt(rest), kHalves * norm(y, kept), size / kShare, offsets / kShare);
    const double whole_slack = hypot4(0.0, kWhole * norm(y, matrix.dim()), size / kShare, offsets / kShare);
    const double whole_lost = hypot4(lost, others.error, 0.0, 0.0);
    if (!(slack < kLarge && whole_slack < kLarge && whole_lost < kLarge))
      refuse("the coordinates of token " + std::to_string(token) + " are too large");
    token_[static_cast<size_t>(place)] = static_cast<int32_t>(token);
    slack_.get()[place] = widened(slack), lost_.get()[place] = widened(lost);
    whole_[static_cast<size_t>(place)] = {static_cast<float>(others.scale), widened(whole_slack), widened(whole_lost)};
  }
}

void PreviewCodes::coordinates(const Kernels& table, const float* hidden, int64_t rows, float* out) const {
  const int64_t dim = basis_.in();
  basis_.matmul(table, hidden, dim, out, dim, rows);
}

void PreviewCodes::compute(const Kernels& table, const int8_t* int8, const float* scale, int64_t rows, float* preview,
                           float* top) const {
  for (const Level& level : level_) {
    level.panels.preview(table, int8, depth_, scale, preview + level.first * kPanel, places(), top + level.first,
                         panels_, rows);
  }
}

void PreviewCodes::refine(const Kernels& table, const PreviewBound& bound, const int8_t* int8, const float* preview,
                          const int32_t* places, int64_t count, float* near, float* slack) const {
  constexpr int64_t kSome = 512;
  int32_t local[kSome], sums[kSome];
  int64_t at = 0;
  for (const Level& level : level_) {
    const int64_t first = level.first * kPanel, end = first + level.panels.panels() * kPanel;
    while (at < count && places[at] < end) {
      int64_t some = 0;
      for (; some < kSome && at + some < count && places[at + some] < end; ++some) {
        local[some] = static_cast<int32_t>(places[at + some] - first);
        __builtin_prefetch(&whole_[static_cast<size_t>(places[at + some])]);
      }
      level.rest.dot(table, int8 + level.panels.in(), local, some, sums);
      for (int64_t i = 0; i < some; ++i, ++at) {
        const Whole& whole = whole_[static_cast<size_t>(places[at])];
        near[at] = bound.scale * (whole.scale * static_cast<float>(sums[i])) + preview[places[at]];
        slack[at] = bound.whole.by_slack * whole.slack + bound.whole.by_lost * whole.lost;
      }
    }
  }
}

PreviewBound PreviewCodes::bound(const Kernels& table, const float* hidden, const float* f, int8_t* bytes) const {
  const int64_t dim = basis_.in();
  PreviewBound row{};
  row.scale = table.quantize_int8(f, dim, bytes);
  std::fill(bytes + dim, bytes + depth_, int8_t{0});
  double own = 0.0, shift = 0.0;
  for (int64_t k = 0; k < dim; ++k) {
    own += static_cast<double>(hidden[k]) * hidden[k];
    shift += static_cast<double>(center_[static_cast<size_t>(k)]) * hidden[k];
  }
  const double size = std::sqrt(own), n = chain_error(dim), e = n * (shift_norm_ + basis_norm_ * size);
  row.shift = shift;
  row.sound = size == 0.0 || (size > kSmall && size < kLarge);
  // Sums over the coordinates before and after the m of each level, from both ends, level by level: m falls.
  const int64_t levels = static_cast<int64_t>(level_.size());
  const auto kept = [&](int64_t l) { return std::min(level_[static_cast<size_t>(l)].panels.in(), dim); };
  double rests[kMostPreviewLevels], rest_square = 0.0, moved_square = 0.0, head_square = 0.0, balanced_square = 0.0;
  for (int64_t l = 0, k = dim; l < levels; k = kept(l++)) {
    for (int64_t i = kept(l); i < k; ++i) rest_square += f[i] * balance_[i] * (f[i] * balance_[i]);
    rests[l] = std::sqrt(rest_square);
  }
  int64_t at = 0;
  // K and B of the first m coordinates, by what the others give at most, t, and the roundings of floats.
  const auto edge = [&](int64_t m, double rest, double t, double roundings, double trust) {
    for (; at < m; ++at) {
      const double near = static_cast<double>(row.scale) * bytes[at], moved = f[at] - near;
      const double balanced = near * balance_[static_cast<size_t>(at)];
      moved_square += moved * moved, head_square += near * near, balanced_square += balanced * balanced;
    }
    const double head = std::sqrt(head_square), balanced = std::sqrt(balanced_square);
    row.sound = row.sound && (head == 0.0 || head > kSmall) && head < kLarge && balanced < kLarge && rest < kLarge;
    const double shaken = std::sqrt(moved_square) + e + roundings * kUnit * head;
    const double slack = hypot4(rest + most_balance_ * e, shaken / t, kShare * (n + remainder_) * size,
                                kShare * (n + (roundings - 3.0) * kUnit));
    const double lost = balanced + (roundings + 1.0) * kUnit * most_balance_ * head;
    return PreviewBound::Edge{static_cast<float>(trust) * above(kUp * slack),
                              static_cast<float>(trust) * above(kUp * lost)};
  };
  for (int64_t l = levels; l-- > 0;) {
    row.edge[l] = edge(kept(l), rests[l], kHalves, 5.0, static_cast<double>(level_[static_cast<size_t>(l)].trust));
  }
  row.whole = edge(dim, 0.0, kWhole, 7.0, whole_trust_);
  row.usual = balanced_square <= kUsual * fitted_square_;
  return row;
}

}  // namespace sharpbeam
