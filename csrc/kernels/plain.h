// The table in use, but with plain loops and the C library for tanh and sigmoid, in double: a decoder without
// SHARP 4.4, for comparisons. Its results equal those of the other tables but for the rounding of some of 10,000
// numbers.
#pragma once

#include "kernels/table.h"

namespace sharpbeam {

const Kernels& plain_kernels();

}  // namespace sharpbeam
