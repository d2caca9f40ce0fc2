// Shared by the tests of kernels: the tables of this machine, and special values.
#pragma once

#include <limits>

#include "check.h"
#include "kernels/table.h"

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Replaces some elements by special values.
inline void salt(Guarded<float>& x) {
  const float special[] = {0.0f, -0.0f, kInfinity, -kInfinity, kNan, 1e-42f, -3e38f, 89.0f, -104.0f};
  for (int64_t i = 0; i < x.size(); ++i) {
    if (draw_size(0, 19) == 0) x[i] = special[draw_size(0, 8)];
  }
}

// Calls check(table) for each table of this machine.
template <typename Check>
void for_each_table(Check check) {
  for (const char* const* name = sharpbeam::kernel_names(); *name != nullptr; ++name) check(sharpbeam::kernels(*name));
}
