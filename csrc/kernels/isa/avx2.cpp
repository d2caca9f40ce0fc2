// 16 lanes as two 256-bit registers. Compiled with its own flags, so nothing here may be an inline function of
// a shared header, or the linker could pick this file's copy for a machine without AVX2.
#include <immintrin.h>

#include <cstdint>

#include "kernels/isa_tables.h"

namespace {

#include "kernels/isa/avx2_lanes.h"

// vpmaddubsw multiplies unsigned by signed bytes and adds pairs in 16 bits. So it gets |x|, and w with the sign of x:
// 2 * 127 * 127 < 2^15, so nothing saturates.
inline __m256i dot_int8(__m256i total, __m256i w, __m256i x, __m256i size) {
  const __m256i pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(w, x));
  return _mm256_add_epi32(total, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
inline __m256i load_signed(const uint8_t* p) { return _mm256_xor_si256(load_ints(p), _mm256_set1_epi8(-128)); }
struct Int8 {
  using Weights = Ints;
  struct Inputs {
    __m256i x, size;
  };
  static constexpr bool kUnsignedWeights = false;
  static constexpr int kRows = 4;
  static constexpr int vecs(int rows) { return rows > 2 ? 1 : 2; }
  static Weights load_weights(const uint8_t* p) { return {load_signed(p), load_signed(p + 32)}; }
  static Inputs load_inputs(const uint8_t* p) {
    const __m256i x = broadcast(p);
    return {x, _mm256_abs_epi8(x)};
  }
  static Ints dot(Ints total, Ints w, const Inputs& x) {
    return {dot_int8(total.low, w.low, x.x, x.size), dot_int8(total.high, w.high, x.x, x.size)};
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
inline Ints dot_int8(Ints total, const uint8_t* w, const int8_t* x) {
  // w is stored as w + 128, an unsigned byte; the caller subtracts 128 * the sum of x.
  const __m256i even = _mm256_set1_epi16(0xff);
  const auto half = [=](__m256i words, __m256i bytes) {
    const __m256i low = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8), high = _mm256_srai_epi16(bytes, 8);
    return _mm256_add_epi32(_mm256_madd_epi16(_mm256_and_si256(words, even), low),
                            _mm256_madd_epi16(_mm256_srli_epi16(words, 8), high));
  };
  const uint8_t* from = reinterpret_cast<const uint8_t*>(x);
  return add_ints(total, {half(load_ints(w), load_ints(from)), half(load_ints(w + 32), load_ints(from + 32))});
}

#include "kernels/body/body.h"

}  // namespace

namespace sharpbeam {
constinit const Kernels kAvx2Kernels = make_table("avx2");
}
