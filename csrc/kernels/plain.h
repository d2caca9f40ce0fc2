// The table in use with plain loops and the C library for what is element-wise: a decoder before SHARP 4.4, for
// comparisons. Its answers differ from those of the other tables by rounding.
#pragma once

#include "kernels/table.h"

namespace quickbeam {

const Kernels& plain_kernels();

}  // namespace quickbeam
