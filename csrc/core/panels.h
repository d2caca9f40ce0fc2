// How the threads of a team share a product: by panels of outputs, so that every sum is taken by one thread, in one
// order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/team.h"
#include "kernels/table.h"

namespace sharpbeam {

constexpr int64_t kMostShares = 64;
constexpr int64_t kRowsOfRead = 8;  // rows whose arithmetic takes about as long as reading the weights

// Calls multiply(first, count) for ranges of outputs that make up 0 to `out` - 1, each `first` a multiple of kPanel.
// `bytes` are those of one output's weights; a team's grain counts them, and rows as what they add to reading.
template <typename Multiply>
void share_panels(int64_t out, int64_t bytes, int64_t rows, const Multiply& multiply) {
  const int64_t least = grain();
  if (least == 0) return multiply(int64_t{0}, out);
  const int64_t panels = (out + kPanel - 1) / kPanel;
  const int64_t cost = out * bytes * (rows + kRowsOfRead) / kRowsOfRead;
  const int64_t parts = std::clamp<int64_t>(cost / least, 1, std::min(panels, kMostShares));
  share(parts, [&](int64_t part) {
    const int64_t first = part * panels / parts * kPanel, last = (part + 1) * panels / parts * kPanel;
    multiply(first, std::min(last, out) - first);
  });
}

}  // namespace sharpbeam
