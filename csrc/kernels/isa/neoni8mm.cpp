// As neondot.cpp, with an instruction (usdot) that multiplies stored weights w + 128, which are unsigned, by signed
// inputs: FEAT_I8MM.
#include <arm_neon.h>

#include <cstdint>

#include "kernels/isa_tables.h"

namespace {

#include "kernels/isa/neon_lanes.h"

struct Int8 : IntegerBlocks {
  static constexpr bool kUnsignedWeights = true;
  static Weights load_weights(const uint8_t* p) { return load_bytes(p); }
  static Ints dot(Ints total, Weights w, Inputs x) {
    const int8x16_t b = vreinterpretq_s8_u8(x);
    return quarters<Ints>([=](int i) { return vusdotq_s32(total.quarter[i], w.quarter[i], b); });
  }
  static Ints add_inputs(Ints total, const int8_t* x) {
    return quarters<Ints>([=](int i) { return vusdotq_s32(total.quarter[i], vdupq_n_u8(1), vld1q_s8(x + 16 * i)); });
  }
};

#include "kernels/body/body.h"

}  // namespace

namespace sharpbeam {
constinit const Kernels kNeonI8mmKernels = make_table("neoni8mm");
}
