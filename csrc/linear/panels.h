// Panels of weights: how rows are packed into them, and how the threads of a team share a matmul: each takes a range of
// output columns (whole panels), so that every sum is taken by one thread, in one order, and no bit depends on the
// number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/team.h"
#include "kernels/table.h"

namespace sharpbeam {

constexpr int64_t kMaxRanges = 64;
constexpr int64_t kRowsPerRead = 8;  // rows whose arithmetic takes about as long as reading the weights

// The rows row_of(0) to row_of(count - 1) [width] side by side in panels, as Float32Matrix has them; the last is filled
// up with zeros.
template <typename RowOf, typename Number>
void pack_rows(int64_t count, int64_t width, const RowOf& row_of, Number* packed) {
  for (int64_t first = 0; first < count; first += kPanel) {
    Number* panel = packed + first * width;
    const int64_t columns = std::min<int64_t>(kPanel, count - first);
    if (columns < kPanel) std::fill_n(panel, kPanel * width, Number(0.0f));
    for (int64_t from = 0; from < width; from += kLanes) {  // a cache line of each row, into a block that stays near
      const int64_t to = std::min<int64_t>(from + kLanes, width);
      for (int64_t c = 0; c < columns; ++c) {
        const float* row = row_of(first + c);
        for (int64_t k = from; k < to; ++k) panel[k * kPanel + c] = row[k];
      }
    }
  }
}

// Calls matmul(first, count) for ranges of columns that make up 0 to `out` - 1, each `first` a multiple of kPanel.
// `bytes` are those of the weights of one column. The cost of a range, which a team's grain size is compared with, is
// its bytes, plus as many again for each kRowsPerRead rows.
template <typename Matmul>
void parallel_panels(int64_t out, int64_t bytes, int64_t rows, const Matmul& matmul) {
  const int64_t least = grain_size();
  if (least == 0) return matmul(int64_t{0}, out);
  const int64_t panels = (out + kPanel - 1) / kPanel;
  const int64_t cost = out * bytes * (rows + kRowsPerRead) / kRowsPerRead;
  const int64_t parts = std::clamp<int64_t>(cost / least, 1, std::min(panels, kMaxRanges));
  parallel_for(parts, [&](int64_t part) {
    const int64_t first = part * panels / parts * kPanel, last = (part + 1) * panels / parts * kPanel;
    matmul(first, std::min(last, out) - first);
  });
}

}  // namespace sharpbeam
