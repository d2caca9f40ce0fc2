// The table in use with plain loops and the C library for tanh and sigmoid, in doubles: a decoder before SHARP 4.4, for
// comparisons. Its answers are those of the other tables but for a rounding in some of 10,000 numbers.
#pragma once

#include "kernels/table.h"

namespace sharpbeam {

const Kernels& plain_kernels();

}  // namespace sharpbeam
