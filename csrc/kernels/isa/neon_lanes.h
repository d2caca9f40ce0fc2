// 16 lanes as four 128-bit registers: the part that neon.cpp, neondot.cpp and neoni8mm.cpp share. Included by each
// inside its anonymous namespace, so that each has its own copy, compiled with its own flags.

constexpr int kBlockRows = 5;  // 5 x 4 accumulators, 4 weights and 5 broadcasts of the 32 registers
constexpr int kBlockVecs = 1;
constexpr int kRowVecs = 4;  // a panel: 16 chains hide the latency of fma on two or four ports

struct Vec {
  float32x4_t quarter[4];
};
struct Mask {
  uint32x4_t quarter[4];
};

// The result of `part` for each quarter, without a loop, so that all of it stays in registers.
template <typename Result, typename Part>
[[gnu::always_inline]] inline Result quarters(Part part) {
  return {{part(0), part(1), part(2), part(3)}};
}

inline Vec load(const float* p) {
  return quarters<Vec>([=](int i) { return vld1q_f32(p + 4 * i); });
}
inline Vec load(const sharpbeam::BFloat16* p) {
  const auto* from = reinterpret_cast<const uint16_t*>(p);
  return quarters<Vec>([=](int i) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(from + 4 * i), 16)); });
}
inline void store(float* p, Vec a) {
  vst1q_f32(p, a.quarter[0]);
  vst1q_f32(p + 4, a.quarter[1]);
  vst1q_f32(p + 8, a.quarter[2]);
  vst1q_f32(p + 12, a.quarter[3]);
}
inline Vec load_part(const float* p, int64_t n, float fill) {
  if (n >= 16) return load(p);
  float lane[16];
  for (int i = 0; i < 16; ++i) lane[i] = i < n ? p[i] : fill;
  return load(lane);
}
inline void store_part(float* p, int64_t n, Vec a) {
  if (n >= 16) return store(p, a);
  float lane[16];
  store(lane, a);
  for (int i = 0; i < n; ++i) p[i] = lane[i];
}
inline Vec set(float x) {
  return quarters<Vec>([=](int) { return vdupq_n_f32(x); });
}
inline Vec add(Vec a, Vec b) {
  return quarters<Vec>([=](int i) { return vaddq_f32(a.quarter[i], b.quarter[i]); });
}
inline Vec sub(Vec a, Vec b) {
  return quarters<Vec>([=](int i) { return vsubq_f32(a.quarter[i], b.quarter[i]); });
}
inline Vec mul(Vec a, Vec b) {
  return quarters<Vec>([=](int i) { return vmulq_f32(a.quarter[i], b.quarter[i]); });
}
inline Vec div(Vec a, Vec b) {
  return quarters<Vec>([=](int i) { return vdivq_f32(a.quarter[i], b.quarter[i]); });
}
inline Vec fma(Vec a, Vec b, Vec c) {
  return quarters<Vec>([=](int i) { return vfmaq_f32(c.quarter[i], a.quarter[i], b.quarter[i]); });
}
// fmax returns a NaN where either is one; a comparison returns b, as x86 does.
inline float32x4_t max(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
inline Vec max(Vec a, Vec b) {
  return quarters<Vec>([=](int i) { return max(a.quarter[i], b.quarter[i]); });
}
inline Vec abs(Vec a) {
  return quarters<Vec>([=](int i) { return vabsq_f32(a.quarter[i]); });
}
inline Vec copysign(Vec size, Vec from) {
  const uint32x4_t sign = vdupq_n_u32(0x80000000u);
  return quarters<Vec>([=](int i) { return vbslq_f32(sign, from.quarter[i], size.quarter[i]); });
}
inline Mask less(Vec a, Vec b) {
  return quarters<Mask>([=](int i) { return vcltq_f32(a.quarter[i], b.quarter[i]); });
}
inline uint32_t bits(Mask mask) {
  static constexpr uint32_t kBits[] = {1, 2, 4, 8};
  const uint32x4_t bit = vld1q_u32(kBits);
  const uint32x4_t low = vorrq_u32(vandq_u32(mask.quarter[0], bit), vandq_u32(mask.quarter[1], vshlq_n_u32(bit, 4)));
  const uint32x4_t high =
      vorrq_u32(vandq_u32(mask.quarter[2], vshlq_n_u32(bit, 8)), vandq_u32(mask.quarter[3], vshlq_n_u32(bit, 12)));
  return vaddvq_u32(vorrq_u32(low, high));
}
inline int64_t store_indices(int32_t* to, uint32_t mask, int32_t first) {
  int64_t count = 0;
  for (; mask != 0; mask &= mask - 1) to[count++] = first + __builtin_ctz(mask);
  return count;
}
inline Vec select(Mask mask, Vec yes, Vec no) {
  return quarters<Vec>([=](int i) { return vbslq_f32(mask.quarter[i], yes.quarter[i], no.quarter[i]); });
}
inline Vec power_of_two(Vec t) {
  return quarters<Vec>([=](int i) {
    const uint32x4_t exponent = vshlq_n_u32(vreinterpretq_u32_f32(t.quarter[i]), 23);
    return vreinterpretq_f32_u32(vaddq_u32(exponent, vdupq_n_u32(0x3f800000u)));
  });
}
inline float32x4_t four_sums(Vec a) {
  return vaddq_f32(vaddq_f32(a.quarter[0], a.quarter[2]), vaddq_f32(a.quarter[1], a.quarter[3]));
}
inline float sum(Vec a) {
  const float32x4_t four = four_sums(a);
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float max_lane(Vec a) {
  float32x4_t four = max(max(a.quarter[0], a.quarter[2]), max(a.quarter[1], a.quarter[3]));
  four = max(four, vextq_f32(four, four, 2));
  return vgetq_lane_f32(max(four, vextq_f32(four, four, 1)), 0);
}
inline Vec load_fours(const float* a, const float* b, const float* c, const float* d) {
  return {{vld1q_f32(a), vld1q_f32(b), vld1q_f32(c), vld1q_f32(d)}};
}
inline void transpose_four(float32x4_t& a, float32x4_t& b, float32x4_t& c, float32x4_t& d) {
  const float64x2_t even_ab = vreinterpretq_f64_f32(vtrn1q_f32(a, b));
  const float64x2_t odd_ab = vreinterpretq_f64_f32(vtrn2q_f32(a, b));
  const float64x2_t even_cd = vreinterpretq_f64_f32(vtrn1q_f32(c, d));
  const float64x2_t odd_cd = vreinterpretq_f64_f32(vtrn2q_f32(c, d));
  a = vreinterpretq_f32_f64(vtrn1q_f64(even_ab, even_cd));
  b = vreinterpretq_f32_f64(vtrn1q_f64(odd_ab, odd_cd));
  c = vreinterpretq_f32_f64(vtrn2q_f64(even_ab, even_cd));
  d = vreinterpretq_f32_f64(vtrn2q_f64(odd_ab, odd_cd));
}
inline void transpose_fours(Vec (&a)[4]) {
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) transpose_four(a[0].quarter[g], a[1].quarter[g], a[2].quarter[g], a[3].quarter[g]);
}
inline void add_fours(float* p, Vec a) { vst1q_f32(p, four_sums(a)); }

struct Doubles {
  float64x2_t pair[8];
};

// The result of `part` for each pair.
template <typename Part>
[[gnu::always_inline]] inline Doubles pairs(Part part) {
  return {{part(0), part(1), part(2), part(3), part(4), part(5), part(6), part(7)}};
}

inline Doubles set_double(double x) {
  return pairs([=](int) { return vdupq_n_f64(x); });
}
inline Doubles widen(Vec a) {
  return pairs([=](int i) {
    return i % 2 == 0 ? vcvt_f64_f32(vget_low_f32(a.quarter[i / 2])) : vcvt_high_f64_f32(a.quarter[i / 2]);
  });
}
inline Vec narrow(const Doubles& a) {
  return quarters<Vec>([&](int i) { return vcvt_high_f32_f64(vcvt_f32_f64(a.pair[2 * i]), a.pair[2 * i + 1]); });
}
inline Doubles load_doubles(const double* p) {
  return pairs([=](int i) { return vld1q_f64(p + 2 * i); });
}
inline Doubles load_doubles(const double* p, int64_t n) {
  if (n >= 16) return load_doubles(p);
  double lane[16];
  for (int i = 0; i < 16; ++i) lane[i] = i < n ? p[i] : 0.0;
  return load_doubles(lane);
}
inline void store_doubles(double* p, const Doubles& a) {
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) vst1q_f64(p + 2 * i, a.pair[i]);
}
inline void store_doubles(double* p, int64_t n, const Doubles& a) {
  if (n >= 16) return store_doubles(p, a);
  double lane[16];
  store_doubles(lane, a);
  for (int i = 0; i < n; ++i) p[i] = lane[i];
}
inline Doubles add(const Doubles& a, const Doubles& b) {
  return pairs([&](int i) { return vaddq_f64(a.pair[i], b.pair[i]); });
}
inline Doubles sub(const Doubles& a, const Doubles& b) {
  return pairs([&](int i) { return vsubq_f64(a.pair[i], b.pair[i]); });
}
inline Doubles mul(const Doubles& a, const Doubles& b) {
  return pairs([&](int i) { return vmulq_f64(a.pair[i], b.pair[i]); });
}
inline Doubles div(const Doubles& a, const Doubles& b) {
  return pairs([&](int i) { return vdivq_f64(a.pair[i], b.pair[i]); });
}
inline Doubles fma(const Doubles& a, const Doubles& b, const Doubles& c) {
  return pairs([&](int i) { return vfmaq_f64(c.pair[i], a.pair[i], b.pair[i]); });
}
inline Doubles clamp(const Doubles& a, double limit) {
  const float64x2_t high = vdupq_n_f64(limit), low = vdupq_n_f64(-limit);
  return pairs([&](int i) {
    const float64x2_t below = vbslq_f64(vcgtq_f64(a.pair[i], high), high, a.pair[i]);  // a NaN stays
    return vbslq_f64(vcltq_f64(below, low), low, below);
  });
}
// A lookup in the 64 bytes of kEighths: byte b of entry n mod 8 is at 8 * (n mod 8) + b.
inline float64x2_t power_of_eighths(float64x2_t t) {
  static constexpr uint8_t kFirst[] = {0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8};
  static constexpr uint8_t kByte[] = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7};
  const uint8_t* bytes = reinterpret_cast<const uint8_t*>(sharpbeam::kEighths);
  const uint8x16x4_t table = {{vld1q_u8(bytes), vld1q_u8(bytes + 16), vld1q_u8(bytes + 32), vld1q_u8(bytes + 48)}};
  const uint64x2_t n = vreinterpretq_u64_f64(t);
  const uint8x16_t eighth = vandq_u8(vqtbl1q_u8(vreinterpretq_u8_u64(n), vld1q_u8(kFirst)), vdupq_n_u8(7));
  const uint8x16_t index = vaddq_u8(vshlq_n_u8(eighth, 3), vld1q_u8(kByte));
  return vreinterpretq_f64_u64(vaddq_u64(vreinterpretq_u64_u8(vqtbl4q_u8(table, index)), vshlq_n_u64(n, 49)));
}
inline Doubles power_of_eighths(const Doubles& t) {
  return pairs([&](int i) { return power_of_eighths(t.pair[i]); });
}
inline double sum(const Doubles& a) {
  const auto eight = [&](int i) { return vaddq_f64(a.pair[i], a.pair[i + 4]); };
  const float64x2_t two = vaddq_f64(vaddq_f64(eight(0), eight(2)), vaddq_f64(eight(1), eight(3)));
  return vgetq_lane_f64(two, 0) + vgetq_lane_f64(two, 1);
}

struct Ints {
  int32x4_t quarter[4];
};
inline Ints set_ints(int32_t x) {
  return quarters<Ints>([=](int) { return vdupq_n_s32(x); });
}
inline void store_ints(int32_t* p, Ints a) {
  for (int i = 0; i < 4; ++i) vst1q_s32(p + 4 * i, a.quarter[i]);
}
inline Vec to_floats(Ints a) {
  return quarters<Vec>([=](int i) { return vcvtq_f32_s32(a.quarter[i]); });
}
inline int32_t sum_ints(Ints a) {
  return vaddvq_s32(vaddq_s32(vaddq_s32(a.quarter[0], a.quarter[2]), vaddq_s32(a.quarter[1], a.quarter[3])));
}
inline int16x8_t narrow_16(float32x4_t low, float32x4_t high) {
  return vmovn_high_s32(vmovn_s32(vreinterpretq_s32_f32(low)), vreinterpretq_s32_f32(high));
}
inline void store_int8(int8_t* p, int64_t n, Vec a) {
  const int8x16_t bytes =
      vmovn_high_s16(vmovn_s16(narrow_16(a.quarter[0], a.quarter[1])), narrow_16(a.quarter[2], a.quarter[3]));
  if (n >= 16) return vst1q_s8(p, bytes);
  int8_t lane[16];
  vst1q_s8(lane, bytes);
  for (int i = 0; i < n; ++i) p[i] = lane[i];
}
inline void store_int16(int16_t* p, int64_t n, Vec a) {
  int16_t lane[16];
  int16_t* to = n >= 16 ? p : lane;
  vst1q_s16(to, narrow_16(a.quarter[0], a.quarter[1]));
  vst1q_s16(to + 8, narrow_16(a.quarter[2], a.quarter[3]));
  for (int i = 0; i < n && n < 16; ++i) p[i] = lane[i];
}

// 64 bytes of packed weights, and the same 4 bytes in every lane.
struct PackedBytes {
  uint8x16_t quarter[4];
};
inline PackedBytes load_bytes(const uint8_t* p) {
  return quarters<PackedBytes>([=](int i) { return vld1q_u8(p + 16 * i); });
}
inline uint8x16_t broadcast(const uint8_t* p) {
  int32_t group;
  __builtin_memcpy(&group, p, sizeof group);
  return vreinterpretq_u8_s32(vdupq_n_s32(group));
}
// The stored bytes w + 128 as w.
inline int8x16_t to_signed(uint8x16_t w) { return vreinterpretq_s8_u8(veorq_u8(w, vdupq_n_u8(0x80))); }

// The shape of the register blocks of integer gemms, which all three tables share.
struct IntegerBlocks {
  using Weights = PackedBytes;
  using Inputs = uint8x16_t;
  static constexpr int kRows = 5;                                   // 5 x 4 accumulators, 4 weights, 5 inputs
  static constexpr int vecs(int rows) { return rows > 2 ? 1 : 2; }  // 2 x 8 accumulators, 8 weights, 2 inputs
  static Inputs load_inputs(const uint8_t* p) { return broadcast(p); }
};

// Pairs of 16-bit numbers: two widening multiplications, and a pairwise addition.
struct Int16 : IntegerBlocks {
  static constexpr bool kUnsignedWeights = false;
  static Weights load_weights(const uint8_t* p) { return load_bytes(p); }
  static Ints dot(Ints total, Weights w, Inputs x) {
    const int16x8_t b = vreinterpretq_s16_u8(x);
    return quarters<Ints>([=](int i) {
      const int16x8_t a = vreinterpretq_s16_u8(w.quarter[i]);
      const int32x4_t low = vmull_s16(vget_low_s16(a), vget_low_s16(b)), high = vmull_high_s16(a, b);
      return vaddq_s32(total.quarter[i], vpaddq_s32(low, high));
    });
  }
};

inline Vec load_words(const uint16_t* p) {
  return quarters<Vec>([=](int i) { return vcvtq_f32_u32(vmovl_u16(vld1_u16(p + 4 * i))); });
}
struct Codes {
  static constexpr bool kByToken = false;
  using Bytes = uint8x16_t;
  static constexpr int kBytes = 16, kRows = 8;
  static Bytes load(const uint8_t* p) { return vld1q_u8(p); }
  static Bytes zero() { return vdupq_n_u8(0); }
  static Bytes low(Bytes x) { return vandq_u8(x, vdupq_n_u8(15)); }
  static Bytes high(Bytes x) { return vshrq_n_u8(x, 4); }
  static Bytes look_up(const uint8_t* table, Bytes codes) { return vqtbl1q_u8(vld1q_u8(table), codes); }
  static Bytes add_bytes(Bytes a, Bytes b) { return vaddq_u8(a, b); }
  static Bytes add_words(Bytes a, Bytes b) { return bytes(vaddq_u16(words(a), words(b))); }
  static Bytes add_upper(Bytes total, Bytes x) { return bytes(vsraq_n_u16(words(total), words(x), 8)); }
  static void store(uint16_t* to, Bytes x) { vst1q_u16(to, words(x)); }
  static void store_even(uint16_t* to, Bytes total, Bytes odd) {
    vst1q_u16(to, vsubq_u16(words(total), vshlq_n_u16(words(odd), 8)));
  }

 private:
  static uint16x8_t words(Bytes x) { return vreinterpretq_u16_u8(x); }
  static Bytes bytes(uint16x8_t x) { return vreinterpretq_u8_u16(x); }
};
