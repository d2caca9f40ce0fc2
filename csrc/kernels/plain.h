// The table in use, but with plain loops in float and the C library for tanh and sigmoid, as a compiler builds them by
// default: a decoder without SHARP 4.4, for comparisons. Its last bits are not those of the other tables.
#pragma once

#include "kernels/table.h"

namespace sharpbeam {

const Kernels& plain_kernels();

}  // namespace sharpbeam
