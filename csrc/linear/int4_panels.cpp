#include "linear/int4_panels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/team.h"

namespace sharpbeam {
namespace {

constexpr int64_t kBlock = 8;  // coordinates that 4 bytes of a token hold
constexpr double kTiny = 1e-20;

struct Quantized {
  double scale, square;  // square: of the error
};

// Multiples of `scale` nearest to w [n], from -8 to 7.
double error_of(const double* w, int64_t n, double scale) {
  const double by = 1.0 / scale;
  double square = 0.0;
  for (int64_t k = 0; k < n; ++k) {
    const double q = std::min(7.0, std::max(-8.0, std::nearbyint(w[k] * by)));
    square += (w[k] - q * scale) * (w[k] - q * scale);
  }
  return square;
}

Quantized best_scale(const double* w, int64_t n) {
  double most = 0.0;
  for (int64_t k = 0; k < n; ++k) most = std::fabs(w[k]) > std::fabs(most) ? w[k] : most;
  if (std::fabs(most) < kTiny) return {0.0, 0.0};
  Quantized best{0.0, std::numeric_limits<double>::infinity()};
  // The largest weight is -8 or a little beyond: clipping it makes the steps of all others smaller.
  for (const double share : {1.0, 0.92, 0.84, 0.76, 0.68, 0.6}) {
    const double scale = static_cast<double>(static_cast<float>(-most * share / 8.0));
    const double square = error_of(w, n, scale);
    if (square < best.square) best = {scale, square};
  }
  return best;
}

}  // namespace

Int4Panels::Int4Panels(int64_t panels, int64_t in) : panels_(panels), in_(in) {
  const int64_t bytes = panels * kPanel * in / 2;
  packed_.reserve(bytes / static_cast<int64_t>(sizeof(float)));
  std::memset(packed_.get(), 0x88, static_cast<size_t>(bytes));
  scale_.reserve(panels * kPanel);
  bias_.reserve(panels * kPanel);
  std::fill_n(scale_.get(), panels * kPanel, 0.0f);
  std::fill_n(bias_.get(), panels * kPanel, -std::numeric_limits<float>::infinity());
}

double Int4Panels::set_row(int64_t row, const double* w, float bias) {
  const Quantized best = best_scale(w, in_);
  scale_.get()[row] = static_cast<float>(best.scale);
  bias_.get()[row] = bias;
  uint8_t* panel = reinterpret_cast<uint8_t*>(packed_.get()) + row / kPanel * kPanel * in_ / 2 + row % kPanel * 4;
  double square = 0.0;
  for (int64_t k = 0; k < in_; ++k) {
    const double q = best.scale == 0.0 ? 0.0 : std::min(7.0, std::max(-8.0, std::nearbyint(w[k] / best.scale)));
    square += (w[k] - q * best.scale) * (w[k] - q * best.scale);
    const auto nibble = static_cast<uint8_t>(static_cast<int>(q) + 8);
    uint8_t& byte = panel[k / kBlock * kPanel * 4 + k % 4];
    byte = k % kBlock < 4 ? static_cast<uint8_t>((byte & 0xf0) | nibble)
                          : static_cast<uint8_t>((byte & 0x0f) | (nibble << 4));
  }
  return std::sqrt(square);
}

void Int4Panels::preview(const Kernels& table, const int8_t* x, int64_t x_stride, const float* x_scale, float* y,
                         int64_t y_stride, float* top, int64_t top_stride, int64_t rows) const {
  const auto part = [&](int64_t first, int64_t count) {
    table.preview_int4(reinterpret_cast<const uint8_t*>(packed_.get()) + first * kPanel * in_ / 2,
                       scale_.get() + first * kPanel, bias_.get() + first * kPanel, x, x_stride, x_scale,
                       y + first * kPanel, y_stride, top + first, top_stride, rows, in_, count);
  };
  part(0, panels_);
}

}  // namespace sharpbeam
