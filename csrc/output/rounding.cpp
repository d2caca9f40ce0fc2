#include "output/rounding.h"

#include <algorithm>
#include <cmath>

#include "linear/int8_matrix.h"

namespace sharpbeam {
namespace {

constexpr double kUnit = 0x1p-24;                // u
constexpr double kUp = 1.0 + 0x1p-20;            // what bounds are widened by
constexpr double kBiasShare = 256.0;             // A a pays for g |b|
constexpr double kSmall = 1e-20, kLarge = 1e12;  // sizes of hidden vectors that have a bound

}  // namespace

float widened(double x) { return above(x * kUp); }

RoundedHidden round_hidden(const Kernels& table, const float* hidden, int64_t dim, int64_t padded, float trust,
                           int8_t* bytes) {
  RoundedHidden row{};
  row.scale = table.quantize_int8(hidden, dim, bytes);
  std::fill(bytes + dim, bytes + padded, int8_t{0});
  double own = 0.0, lost = 0.0, rounded = 0.0;
  for (int64_t k = 0; k < dim; ++k) {
    const double x = hidden[k], near = static_cast<double>(row.scale) * bytes[k];
    own += x * x;
    lost += (x - near) * (x - near);
    rounded += near * near;
  }
  own = std::sqrt(own), lost = std::sqrt(lost), rounded = std::sqrt(rounded);
  row.sound = own == 0.0 || (own > kSmall && own < kLarge);
  const double steps = static_cast<double>(dim) * kUnit, chain = steps / (1.0 - steps);
  const double by_norm = std::max(lost + chain * own + 5.0 * kUnit * rounded, kBiasShare * (chain + 5.0 * kUnit));
  row.by_norm = widened(by_norm) * trust;
  row.by_lost = widened((1.0 + 6.0 * kUnit) * rounded) * trust;
  return row;
}

float norm_of(const Words& words, int64_t word) {
  return widened(words.norm(words.row(word)) + std::fabs(static_cast<double>(words.bias()[word])) / kBiasShare);
}

RoundedWords::RoundedWords(const Words& words)
    : word_(static_cast<size_t>(words.vocab())), stride_(round_up(words.dim(), kRowAlignment)) {
  bytes_.reserve(words.vocab() * stride_ / static_cast<int64_t>(sizeof(float)));
  uint8_t* bytes = reinterpret_cast<uint8_t*>(bytes_.get());
  std::fill_n(bytes, words.vocab() * stride_, uint8_t{128});
  words.read([&](int64_t v) {
    const QuantizedRow rounded = quantize_row(words.row(v), words.dim(), bytes + v * stride_);
    word_[static_cast<size_t>(v)] = {rounded.scale, words.bias()[v], norm_of(words, v), widened(rounded.error)};
  });
}

void RoundedWords::logits(const Kernels& table, const int8_t* bytes, const RoundedHidden& hidden, const int32_t* words,
                          int64_t count, float* near, float* slack) const {
  constexpr int64_t kSome = 64;
  int32_t sums[kSome];
  for (int64_t first = 0; first < count; first += kSome) {
    const int64_t some = std::min(kSome, count - first);
    table.gather_dot_int8(reinterpret_cast<const uint8_t*>(bytes_.get()), stride_, bytes, words + first, some, sums);
    for (int64_t i = 0; i < some; ++i) {
      const Word& word = word_[static_cast<size_t>(words[first + i])];
      near[first + i] = word.bias + hidden.scale * (word.scale * static_cast<float>(sums[i]));
      slack[first + i] = hidden.by_norm * word.norm + hidden.by_lost * word.lost;
    }
  }
}

}  // namespace sharpbeam
