// 16 lanes as two 256-bit registers. Compiled with its own flags, so nothing here may be an inline function of
// a shared header, or the linker could pick this file's copy for a machine without AVX2.
#include <immintrin.h>

#include <cstdint>

#include "kernels/isa_tables.h"

namespace {

#include "kernels/isa/avx2_lanes.h"
#include "kernels/isa/codes_256.h"

// vpmaddubsw multiplies unsigned by signed bytes and adds pairs in 16 bits. So it gets |x|, and w with the sign of x:
// 2 * 127 * 128 < 2^15, so nothing saturates. A weight is stored as w + 128, so one exclusive or, which more ports
// compute than a sign, gives w where x >= 0 and -w - 1 where x < 0; the sums start with the sizes of those x.
struct Int8 {
  using Weights = const uint8_t*;
  struct Inputs {
    __m256i flip, size;
  };
  static constexpr int kRows = 3;  // 3 x 2 x 2 accumulators, an input, 1 and a product: the 16 registers
  static constexpr int vecs(int rows) { return rows == 1 ? 4 : 2; }
  static Weights load_weights(const uint8_t* p) { return p; }
  static Inputs load_inputs(const uint8_t* p) { return {broadcast(p), broadcast(p + 4)}; }
  static Ints dot(Ints total, Weights w, const Inputs& x) { return {dot(total.low, w, x), dot(total.high, w + 32, x)}; }
  // Writes 4 bytes of `flip` and 4 of `size` for each group of x; returns the sum of the sizes of negative x.
  static int32_t prepare(const int8_t* x, int64_t n, uint8_t* to) {
    __m256i sums = _mm256_setzero_si256();
    int64_t k = 0;
    for (; k + 32 <= n; k += 32) sums = _mm256_add_epi64(sums, prepare_32(x + k, to + 2 * k));
    if (k < n) {
      int8_t rest[32] = {};
      uint8_t both[64];
      __builtin_memcpy(rest, x + k, static_cast<size_t>(n - k));
      sums = _mm256_add_epi64(sums, prepare_32(rest, both));
      __builtin_memcpy(to + 2 * k, both, static_cast<size_t>(2 * (n - k)));
    }
    return sum_ints({sums, _mm256_setzero_si256()});
  }

 private:
  static __m256i dot(__m256i total, const uint8_t* w, const Inputs& x) {
    __m256i product;
    asm("vpxor %2, %3, %1\n\t"
        "vpmaddubsw %1, %4, %1\n\t"
        "vpmaddwd %5, %1, %1\n\t"
        "vpaddd %1, %0, %0"
        : "+x"(total), "=&x"(product)
        : "m"(*reinterpret_cast<const __m256i_u*>(w)), "x"(x.flip), "x"(x.size), "x"(_mm256_set1_epi16(1)));
    return total;
  }
  static __m256i prepare_32(const int8_t* x, uint8_t* to) {
    const __m256i zero = _mm256_setzero_si256(), bytes = load_ints(reinterpret_cast<const uint8_t*>(x));
    const __m256i negative = _mm256_cmpgt_epi8(zero, bytes), size = _mm256_abs_epi8(bytes);
    const __m256i flip = _mm256_xor_si256(negative, _mm256_set1_epi8(-128));
    const __m256i low = _mm256_unpacklo_epi32(flip, size), high = _mm256_unpackhi_epi32(flip, size);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 32), _mm256_permute2x128_si256(low, high, 0x31));
    return _mm256_sad_epu8(_mm256_and_si256(size, negative), zero);
  }
};
struct Int16 {
  using Weights = Ints;
  using Inputs = __m256i;
  static constexpr bool kUnsignedWeights = false;
  static constexpr int kRows = 5;
  static constexpr int vecs(int rows) { return rows > 2 ? 1 : 2; }
  static Weights load_weights(const uint8_t* p) { return {load_ints(p), load_ints(p + 32)}; }
  static Inputs load_inputs(const uint8_t* p) { return broadcast(p); }
  static Ints dot(Ints total, Ints w, __m256i x) {
    return add_ints(total, {_mm256_madd_epi16(w.low, x), _mm256_madd_epi16(w.high, x)});
  }
};

using Codes = CodesIn256<4>;

#include "kernels/body/body.h"

}  // namespace

namespace sharpbeam {
constinit const Kernels kAvx2Kernels = make_table("avx2");
}
