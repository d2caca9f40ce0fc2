// Advanced SIMD as every 64-bit Arm processor has it. Compiled with its own flags, so nothing here may be an inline
// function of a shared header, or the linker could pick a copy that another processor cannot run.
#include <arm_neon.h>

#include <cstdint>

#include "kernels/isa_tables.h"

namespace {

#include "kernels/isa/neon_lanes.h"

// Groups of 4 bytes: products of 16 bits (127 * 127 < 2^15), which are added pairwise twice.
inline int32x4_t add_groups(int32x4_t total, int16x8_t low, int16x8_t high) {
  return vaddq_s32(total, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
}
struct Int8 : IntegerBlocks {
  static constexpr int kRows = 3;  // the products need registers as well
  static constexpr int vecs(int) { return 1; }
  static constexpr bool kUnsignedWeights = false;
  static Weights load_weights(const uint8_t* p) { return load_bytes(p); }
  static Ints dot(Ints total, Weights w, Inputs x) {
    const int8x16_t b = vreinterpretq_s8_u8(x);
    return quarters<Ints>([=](int i) {
      const int8x16_t a = to_signed(w.quarter[i]);
      return add_groups(total.quarter[i], vmull_s8(vget_low_s8(a), vget_low_s8(b)), vmull_high_s8(a, b));
    });
  }
};

#include "kernels/body/body.h"

}  // namespace

namespace sharpbeam {
constinit const Kernels kNeonKernels = make_table("neon");
}
