// Rows of 4-bit weights in panels, for the low-bit preview (kernels/table.h, preview_int4).
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "kernels/table.h"

namespace sharpbeam {

class Int4Panels {
 public:
  Int4Panels() = default;
  // `panels` panels of kPanel tokens, `in` coordinates each (a multiple of 8): all weights zero, all biases -infinity.
  Int4Panels(int64_t panels, int64_t in);

  // Quantizes `w` [in]; returns the error of quantize_int4.
  double set_row(int64_t row, const double* w, const double* balance, float bias);

  // y [rows, y_stride] and top [rows, top_stride] as preview_int4 has them.
  void preview(const Kernels& table, const int8_t* x, int64_t x_stride, const float* x_scale, float* y,
               int64_t y_stride, float* top, int64_t top_stride, int64_t rows) const;

  int64_t in() const { return in_; }
  int64_t panels() const { return panels_; }

 private:
  Buffer packed_;  // bytes, not floats
  Buffer scale_, bias_;
  int64_t panels_ = 0, in_ = 0;
};

}  // namespace sharpbeam
