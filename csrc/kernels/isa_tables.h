// The tables of this build; dispatch.cpp chooses among those that the machine can run.
#pragma once

#include "kernels/table.h"

namespace sharpbeam {

// The bits of 2^(j / 8) less j << 49: with n << 49 added, those of 2^(n / 8), j = n mod 8.
constexpr uint64_t kEighths[8] = {0x3ff0000000000000, 0x3fef72b83c7d517b, 0x3fef06fe0a31b715, 0x3feebfdad5362a27,
                                  0x3feea09e667f3bcd, 0x3feeace5422aa0db, 0x3feee89f995ad3ad, 0x3fef5818dcfba487};

extern const Kernels kScalarKernels;
#ifdef SHARPBEAM_X86
extern const Kernels kAvx2Kernels;
extern const Kernels kAvxVnniKernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx512VnniKernels;
extern const Kernels kAvx512VbmiKernels;
#endif
#ifdef SHARPBEAM_ARM
extern const Kernels kNeonKernels;
extern const Kernels kNeonDotKernels;
extern const Kernels kNeonI8mmKernels;
#endif

}  // namespace sharpbeam
