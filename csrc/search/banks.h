// Dynamic beam allocation (Post & Vilar 2018, section 3.2): how the places of a beam are divided among banks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sharpbeam {

// Places of each bank [B] out of `width`, where bank b has candidates[b]: as many for each, and what is left over for
// the last one; with fewer places than banks one for each of some, the first and the last among them. A bank that has
// fewer candidates leaves its places to the one before it, from the last one down, and the first one to the last.
inline void divide_beam(int64_t width, const std::vector<int64_t>& candidates, std::vector<int64_t>& places) {
  const auto banks = static_cast<int64_t>(candidates.size());
  places.assign(candidates.size(), width / banks);
  if (width < banks) {
    for (int64_t i = 0; i < width; ++i)
      places[static_cast<size_t>(i * (banks - 1) / std::max<int64_t>(width - 1, 1))] = 1;
  } else {
    places.back() += width % banks;
  }
  for (size_t bank = places.size(); bank-- > 0;) {
    const int64_t over = places[bank] - candidates[bank];
    if (over <= 0) continue;
    places[bank] -= over;
    (bank > 0 ? places[bank - 1] : places.back()) += over;
  }
}

}  // namespace sharpbeam
