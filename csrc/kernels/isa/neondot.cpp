// As neon.cpp, with one instruction (sdot) for the integer dot products of four lanes: FEAT_DotProd.
#include <arm_neon.h>

#include <cstdint>

#include "kernels/isa_tables.h"

namespace {

#include "kernels/isa/neon_lanes.h"

struct Int8 : IntegerBlocks {
  struct Weights {
    int8x16_t quarter[4];
  };
  static constexpr bool kUnsignedWeights = false;
  static Weights load_weights(const uint8_t* p) {
    return quarters<Weights>([=](int i) { return to_signed(vld1q_u8(p + 16 * i)); });
  }
  static Ints dot(Ints total, Weights w, Inputs x) {
    const int8x16_t b = vreinterpretq_s8_u8(x);
    return quarters<Ints>([=](int i) { return vdotq_s32(total.quarter[i], w.quarter[i], b); });
  }
};
// The dot product with stored weights w + 128 is that with w, plus 128 times the sum of x.
inline Ints dot_int8(Ints total, const uint8_t* w, const int8_t* x) {
  const int8x16_t half = vdupq_n_s8(64);
  return quarters<Ints>([=](int i) {
    const int8x16_t b = vld1q_s8(x + 16 * i);
    const int32x4_t sums = vdotq_s32(total.quarter[i], to_signed(vld1q_u8(w + 16 * i)), b);
    return vdotq_s32(vdotq_s32(sums, half, b), half, b);
  });
}

#include "kernels/body/body.h"

}  // namespace

namespace sharpbeam {
constinit const Kernels kNeonDotKernels = make_table("neondot");
}
