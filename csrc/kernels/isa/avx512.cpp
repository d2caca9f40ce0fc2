// 16 lanes as one 512-bit register. Compiled with its own flags, so nothing here may be an inline function of
// a shared header, or the linker could pick this file's copy for a machine without AVX-512.
#include <immintrin.h>

#include <cstdint>

#include "kernels/isa_tables.h"

namespace {

#include "kernels/isa/avx512_lanes.h"
#include "kernels/isa/codes_256.h"

// Without VNNI: even and odd bytes are widened to 16 bits, multiplied and added in pairs (vpmaddwd).
struct Int8 {
  struct Weights {
    Ints even, odd;
  };
  struct Inputs {
    Ints even, odd;
  };
  static constexpr bool kUnsignedWeights = true;
  static constexpr int kRows = 4;
  static constexpr int vecs(int) { return 4; }
  static Weights load_weights(const uint8_t* p) {
    const Ints bytes = load_ints(p);
    return {_mm512_and_si512(bytes, _mm512_set1_epi16(0xff)), _mm512_srli_epi16(bytes, 8)};
  }
  static Inputs load_inputs(const uint8_t* p) {
    const Ints bytes = broadcast(p);
    return {_mm512_srai_epi16(_mm512_slli_epi16(bytes, 8), 8), _mm512_srai_epi16(bytes, 8)};
  }
  static Ints dot(Ints total, const Weights& w, const Inputs& x) {
    return add_ints(total, add_ints(_mm512_madd_epi16(w.even, x.even), _mm512_madd_epi16(w.odd, x.odd)));
  }
  static Ints add_inputs(Ints total, const int8_t* x) {
    const Ints pairs = _mm512_maddubs_epi16(_mm512_set1_epi8(1), _mm512_loadu_si512(x));
    return add_ints(total, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
};
struct Int16 {
  using Weights = Ints;
  using Inputs = Ints;
  static constexpr bool kUnsignedWeights = false;
  static constexpr int kRows = 6;
  static constexpr int vecs(int) { return 4; }
  static Weights load_weights(const uint8_t* p) { return load_ints(p); }
  static Inputs load_inputs(const uint8_t* p) { return broadcast(p); }
  static Ints dot(Ints total, Ints w, Ints x) { return add_ints(total, _mm512_madd_epi16(w, x)); }
};

using Codes = CodesIn256<5>;

#include "kernels/body/body.h"

}  // namespace

namespace sharpbeam {
constinit const Kernels kAvx512Kernels = make_table("avx512");
}
