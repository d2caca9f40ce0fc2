// The tables that this build holds; dispatch.cpp chooses among those that the machine can run.
#pragma once

#include "kernels/table.h"

namespace quickbeam {

extern const Kernels kScalarKernels;
#ifdef QUICKBEAM_X86
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx512VnniKernels;
#endif

}  // namespace quickbeam
