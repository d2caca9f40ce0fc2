#include "linear/int4_panels.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "linear/int4_row.h"

namespace sharpbeam {
namespace {

constexpr int64_t kBlock = 8;  // coordinates that 4 bytes of a token hold

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

double Int4Panels::set_row(int64_t row, const double* w, const double* balance, float bias) {
  std::vector<int8_t> q(static_cast<size_t>(in_));
  const Int4Row found = quantize_int4(w, balance, in_, q.data());
  scale_.get()[row] = static_cast<float>(found.scale);
  bias_.get()[row] = bias;
  uint8_t* panel = reinterpret_cast<uint8_t*>(packed_.get()) + row / kPanel * kPanel * in_ / 2 + row % kPanel * 4;
  for (int64_t k = 0; k < in_; ++k) {
    const auto nibble = static_cast<uint8_t>(q[static_cast<size_t>(k)] + 8);
    uint8_t& byte = panel[k / kBlock * kPanel * 4 + k % 4];
    byte = k % kBlock < 4 ? static_cast<uint8_t>((byte & 0xf0) | nibble)
                          : static_cast<uint8_t>((byte & 0x0f) | (nibble << 4));
  }
  return found.error;
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
