// As avx512vnni.cpp, with look-ups in tables of 64 bytes, added in pairs: all entries of a group fit into a byte.
#include <immintrin.h>

#include <cstdint>

#include "kernels/isa_tables.h"

namespace {

#include "kernels/isa/avx512_lanes.h"
#include "kernels/isa/avx512vnni_lanes.h"

struct Codes {
  static constexpr bool kByToken = true;
  static constexpr int kRows = 5;  // 5 x 4 sums, 8 codes, two tables
  template <int kCount>
  static void sums_of_panel(const uint8_t* codes, const uint8_t* tables, int64_t stride, int64_t groups,
                            uint16_t (*sums)[sharpbeam::kPanel]) {
    constexpr int kLines = 4;
    const Ints ones = _mm512_set1_epi8(1);
    Ints total[kCount][kLines];
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 4
      for (int t = 0; t < kLines; ++t) total[r][t] = set_ints(0);
    }
    for (int64_t g = 0; g < groups; ++g, codes += kLines * kLine, tables += 2 * kLine) {
      Ints low[kLines], high[kLines];
#pragma GCC unroll 4
      for (int t = 0; t < kLines; ++t) {
        const Ints both = load_ints(codes + t * kLine);
        low[t] = places(both), high[t] = places(_mm512_srli_epi16(both, 4));
      }
#pragma GCC unroll 8
      for (int r = 0; r < kCount; ++r) {
        const Ints first = load_ints(tables + r * stride), second = load_ints(tables + r * stride + kLine);
#pragma GCC unroll 4
        for (int t = 0; t < kLines; ++t) {
          const Ints some = _mm512_permutexvar_epi8(low[t], first), others = _mm512_permutexvar_epi8(high[t], second);
          total[r][t] = Int8::dot(total[r][t], _mm512_add_epi8(some, others), ones);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kCount; ++r) {
#pragma GCC unroll 4
      for (int t = 0; t < kLines; ++t) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums[r] + t * sharpbeam::kLanes),
                            _mm512_cvtepi32_epi16(total[r][t]));
      }
    }
  }

 private:
  static constexpr int64_t kLine = 64;
  // The places of the low nibbles in a register of four tables, one for each byte of a lane: x & 15 | 16 j.
  static Ints places(Ints x) { return _mm512_ternarylogic_epi32(x, _mm512_set1_epi8(15), set_ints(0x30201000), 0xea); }
};

#include "kernels/body/body.h"

}  // namespace

namespace sharpbeam {
constinit const Kernels kAvx512VbmiKernels = make_table("avx512vbmi");
}
