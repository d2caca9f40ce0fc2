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
  static Ints add_inputs(Ints total, const int8_t* x) { return dot(total, _mm512_set1_epi8(1), _mm512_loadu_si512(x)); }
};
struct Int16 : Integers {
  static constexpr bool kUnsignedWeights = false;
  static Ints dot(Ints total, Ints w, Ints x) {
    asm("vpdpwssd %2, %1, %0" : "+v"(total) : "v"(w), "v"(x));
    return total;
  }
};
