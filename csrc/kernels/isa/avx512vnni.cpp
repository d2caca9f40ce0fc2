// As avx512.cpp, with one instruction for the integer dot products of all lanes.
#include <immintrin.h>

#include <cstdint>

#include "kernels/isa_tables.h"

namespace {

#include "kernels/isa/avx512_lanes.h"
#include "kernels/isa/avx512vnni_lanes.h"
#include "kernels/isa/codes_256.h"

using Codes = CodesIn256<5>;

#include "kernels/body/body.h"

}  // namespace

namespace sharpbeam {
constinit const Kernels kAvx512VnniKernels = make_table("avx512vnni");
}
