// 16 lanes as one 512-bit register. Built with its own flags: nothing here may be inline in a header that other
// files share, or the linker could pick this file's copy for a machine without AVX-512.
#include <immintrin.h>

#include <cstdint>

#include "kernels/tables.h"

namespace {

#include "kernels/avx512_lanes.h"

// Four byte products of each lane without VNNI: even and odd bytes as 16-bit numbers, multiplied and added in pairs.
struct Weights {
  Ints even, odd;
};
inline Weights load_weights(const uint8_t* p) {
  const Ints bytes = load_ints(p);
  return {_mm512_and_si512(bytes, _mm512_set1_epi16(0xff)), _mm512_srli_epi16(bytes, 8)};
}
struct Inputs {
  Ints even, odd;
};
inline Inputs split_inputs(Ints bytes) {
  return {_mm512_srai_epi16(_mm512_slli_epi16(bytes, 8), 8), _mm512_srai_epi16(bytes, 8)};
}
inline Inputs load_inputs(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, sizeof word);
  return split_inputs(_mm512_set1_epi32(word));
}
inline Ints dot(Ints total, const Weights& w, const Inputs& x) {
  return add_ints(total, add_ints(_mm512_madd_epi16(w.even, x.even), _mm512_madd_epi16(w.odd, x.odd)));
}
inline Ints dot_bytes(Ints total, const uint8_t* w, const int8_t* x) {
  const Ints bytes = _mm512_loadu_si512(x);
  return dot(total, load_weights(w), split_inputs(bytes));
}

#include "kernels/body.h"

}  // namespace

namespace quickbeam {
constinit const Kernels kAvx512Kernels = make_table("avx512");
}
