// As avx2.cpp, with one instruction for the integer dot products of 8 lanes, in its VEX encoding: for processors that
// have it without AVX-512 (Intel's since 2021), or as well as it (Zen 5).
#include <immintrin.h>

#include <cstdint>

#include "kernels/isa_tables.h"

namespace {

#include "kernels/isa/avx2_lanes.h"
#include "kernels/isa/codes_256.h"

// In assembly for the reason that avx512vnni.cpp gives.
struct Integers {
  using Weights = Ints;
  using Inputs = __m256i;
  static constexpr int kRows = 6;  // 6 x 1 x 2 accumulators, 2 weights and an input of the 16 registers
  static constexpr int vecs(int rows) { return rows == 1 ? 4 : rows == 2 ? 2 : 1; }
  static Weights load_weights(const uint8_t* p) { return {load_ints(p), load_ints(p + 32)}; }
  static Inputs load_inputs(const uint8_t* p) { return broadcast(p); }
};
struct Int8 : Integers {
  static constexpr bool kUnsignedWeights = true;
  static Ints dot(Ints total, const Ints& w, __m256i x) { return dot(total, w, {x, x}); }
  static Ints dot(Ints total, const Ints& w, const Ints& x) {
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(total.low) : "x"(w.low), "x"(x.low));
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(total.high) : "x"(w.high), "x"(x.high));
    return total;
  }
  static Ints add_inputs(Ints total, const int8_t* x) {
    const __m256i one = _mm256_set1_epi8(1);
    return dot(total, {one, one}, load_weights(reinterpret_cast<const uint8_t*>(x)));
  }
};
struct Int16 : Integers {
  static constexpr bool kUnsignedWeights = false;
  static Ints dot(Ints total, const Ints& w, __m256i x) {
    asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(total.low) : "x"(w.low), "x"(x));
    asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(total.high) : "x"(w.high), "x"(x));
    return total;
  }
};

using Codes = CodesIn256<4>;

#include "kernels/body/body.h"

}  // namespace

namespace sharpbeam {
constinit const Kernels kAvxVnniKernels = make_table("avxvnni");
}
