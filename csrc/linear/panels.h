// How the threads of a team share a matmul: each takes a range of output columns (whole panels), so that every sum is
// taken by one thread, in one order, and no bit depends on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/team.h"
#include "kernels/table.h"

namespace sharpbeam {

constexpr int64_t kMaxRanges = 64;
constexpr int64_t kRowsPerRead = 8;  // rows whose arithmetic takes about as long as reading the weights

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
