// As avx512.cpp, with one instruction for the four byte products of each lane.
#include <immintrin.h>

#include <cstdint>

#include "kernels/tables.h"

namespace {

#include "kernels/avx512_lanes.h"

using Weights = Ints;
using Inputs = const int8_t*;
inline Weights load_weights(const uint8_t* p) { return load_ints(p); }
inline Inputs load_inputs(const int8_t* p) { return p; }
// By hand, because of what g++ 12 makes of _mm512_dpbusd_epi32: copies of every sum, which do not fit the registers.
inline Ints dot(Ints total, Weights w, Inputs x) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(total) : "v"(w), "m"(*reinterpret_cast<const int32_t*>(x)));
  return total;
}
inline Ints dot_bytes(Ints total, const uint8_t* w, const int8_t* x) {
  return _mm512_dpbusd_epi32(total, load_ints(w), _mm512_loadu_si512(x));
}

#include "kernels/body.h"

}  // namespace

namespace quickbeam {
constinit const Kernels kAvx512VnniKernels = make_table("avx512vnni");
}
