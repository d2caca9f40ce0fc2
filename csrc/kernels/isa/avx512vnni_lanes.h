// The integer dot products that avx512vnni.cpp and avx512vbmi.cpp share, included as avx512_lanes.h is.

// The dot product of each lane's 4 bytes by one instruction. In assembly, because g++ 12 copies every accumulator for
// the intrinsic, and the copies do not fit the registers.
struct Integers {
  using Weights = Ints;
  using Inputs = Ints;
  static constexpr int kRows = 6;  // 6 x 4 accumulators, 4 weights and an input of the 32 registers
  static constexpr int vecs(int) { return 4; }
  static Weights load_weights(const uint8_t* p) { return load_ints(p); }
  static Inputs load_inputs(const uint8_t* p) { return broadcast(p); }
};
struct Int8 : Integers {
  static constexpr bool kUnsignedWeights = true;
  static Ints dot(Ints total, Ints w, Ints x) {
    asm("vpdpbusd %2, %1, %0" : "+v"(total) : "v"(w), "v"(x));
    return total;
  }
};
struct Int16 : Integers {
  static constexpr bool kUnsignedWeights = false;
  static Ints dot(Ints total, Ints w, Ints x) {
    asm("vpdpwssd %2, %1, %0" : "+v"(total) : "v"(w), "v"(x));
    return total;
  }
};
// Nibbles, unpacked in registers: low ones meet the first 4 bytes of the input, high ones the next 4.
struct Int4 {
  struct Weights {
    Ints low, high;
  };
  struct Inputs {
    Ints low, high;
  };
  static constexpr int kRows = 5;  // 5 x 4 sums and 8 weights of the 32 registers
  static constexpr int vecs(int) { return 4; }
  static Weights load_weights(const uint8_t* p) { return low_and_high(load_ints(p)); }
  static Inputs load_inputs(const uint8_t* p) { return {broadcast(p), broadcast(p + 4)}; }
  static Ints dot(Ints total, const Weights& w, const Inputs& x) {
    asm("vpdpbusd %2, %1, %0" : "+v"(total) : "v"(w.low), "v"(x.low));
    asm("vpdpbusd %2, %1, %0" : "+v"(total) : "v"(w.high), "v"(x.high));
    return total;
  }

 private:
  static Weights low_and_high(Ints both) {
    const Ints nibble = _mm512_set1_epi8(15);
    return {_mm512_and_si512(both, nibble), _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble)};
  }
};
inline Ints dot_int8(Ints total, const uint8_t* w, const int8_t* x) {
  return _mm512_dpbusd_epi32(total, load_ints(w), _mm512_loadu_si512(x));
}
inline Ints dot_int4(Ints total, const uint8_t* w, const int8_t* x) {
  return Int4::dot(total, Int4::load_weights(w), {_mm512_loadu_si512(x), _mm512_loadu_si512(x + 64)});
}
