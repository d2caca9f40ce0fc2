// 16 lanes as one 512-bit register: the part that avx512.cpp, avx512vnni.cpp and avx512vbmi.cpp share. Included by each
// inside its anonymous namespace, so that each has its own copy, compiled with its own flags.

constexpr int kBlockRows = 6;  // 6 x 4 accumulators and 4 weights of the 32 registers; broadcasts come from memory
constexpr int kBlockVecs = 4;
constexpr int kRowVecs = 8;  // two panels: 8 chains hide the latency of fma on two ports

using Vec = __m512;
using Mask = __mmask16;

inline __mmask16 lanes_below(int64_t n) {
  return n >= 16 ? 0xffff : n <= 0 ? 0 : static_cast<__mmask16>((1u << n) - 1u);
}
inline Vec load(const float* p) { return _mm512_loadu_ps(p); }
inline Vec load(const sharpbeam::BFloat16* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
inline Vec load_part(const float* p, int64_t n, float fill) {
  return _mm512_mask_loadu_ps(_mm512_set1_ps(fill), lanes_below(n), p);
}
inline void store(float* p, Vec a) { _mm512_storeu_ps(p, a); }
inline void store_part(float* p, int64_t n, Vec a) { _mm512_mask_storeu_ps(p, lanes_below(n), a); }
inline Vec set(float x) { return _mm512_set1_ps(x); }
inline Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
inline Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
inline Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
inline Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
inline Vec abs(Vec a) { return _mm512_abs_ps(a); }
inline Vec copysign(Vec size, Vec from) {
  const Vec sign = _mm512_set1_ps(-0.0f);
  return _mm512_or_ps(_mm512_andnot_ps(sign, size), _mm512_and_ps(sign, from));
}
inline Mask less(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
inline uint32_t bits(Mask mask) { return mask; }
inline int64_t store_indices(int32_t* to, uint32_t mask, int32_t first) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i index = _mm512_add_epi32(lane, _mm512_set1_epi32(first));
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(static_cast<__mmask16>(mask), index));
  return __builtin_popcount(mask);
}
inline Vec select(Mask mask, Vec yes, Vec no) { return _mm512_mask_blend_ps(mask, no, yes); }
inline Vec power_of_two(Vec t) {
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(t), 23);
  return _mm512_castsi512_ps(_mm512_add_epi32(exponent, _mm512_set1_epi32(0x3f800000)));
}
inline float sum(Vec a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float max_lane(Vec a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

struct Doubles {
  __m512d low, high;
};
inline __mmask8 doubles_below(int64_t n) { return static_cast<__mmask8>(lanes_below(n)); }
inline Doubles set_double(double x) { return {_mm512_set1_pd(x), _mm512_set1_pd(x)}; }
inline Doubles widen(Vec a) {
  return {_mm512_cvtps_pd(_mm512_castps512_ps256(a)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1))};
}
inline Vec narrow(Doubles a) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(a.low)), _mm512_cvtpd_ps(a.high), 1);
}
inline Doubles load_doubles(const double* p) { return {_mm512_loadu_pd(p), _mm512_loadu_pd(p + 8)}; }
inline Doubles load_doubles(const double* p, int64_t n) {
  return {_mm512_maskz_loadu_pd(doubles_below(n), p), _mm512_maskz_loadu_pd(doubles_below(n - 8), p + 8)};
}
inline void store_doubles(double* p, Doubles a) {
  _mm512_storeu_pd(p, a.low);
  _mm512_storeu_pd(p + 8, a.high);
}
inline void store_doubles(double* p, int64_t n, Doubles a) {
  _mm512_mask_storeu_pd(p, doubles_below(n), a.low);
  _mm512_mask_storeu_pd(p + 8, doubles_below(n - 8), a.high);
}
inline Doubles add(Doubles a, Doubles b) { return {_mm512_add_pd(a.low, b.low), _mm512_add_pd(a.high, b.high)}; }
inline Doubles sub(Doubles a, Doubles b) { return {_mm512_sub_pd(a.low, b.low), _mm512_sub_pd(a.high, b.high)}; }
inline Doubles mul(Doubles a, Doubles b) { return {_mm512_mul_pd(a.low, b.low), _mm512_mul_pd(a.high, b.high)}; }
inline Doubles div(Doubles a, Doubles b) { return {_mm512_div_pd(a.low, b.low), _mm512_div_pd(a.high, b.high)}; }
inline Doubles fma(Doubles a, Doubles b, Doubles c) {
  return {_mm512_fmadd_pd(a.low, b.low, c.low), _mm512_fmadd_pd(a.high, b.high, c.high)};
}
// x last in max and min: they return their last operand where it is a NaN.
inline Doubles clamp(Doubles a, double most) {
  const __m512d low = _mm512_set1_pd(-most), high = _mm512_set1_pd(most);
  return {_mm512_min_pd(high, _mm512_max_pd(low, a.low)), _mm512_min_pd(high, _mm512_max_pd(low, a.high))};
}
inline __m512d power_of_eighths(__m512d t) {
  const __m512i n = _mm512_castpd_si512(t);
  const __m512i eighth = _mm512_permutexvar_epi64(n, _mm512_loadu_si512(sharpbeam::kEighths));
  return _mm512_castsi512_pd(_mm512_add_epi64(eighth, _mm512_slli_epi64(n, 49)));
}
inline Doubles power_of_eighths(Doubles t) { return {power_of_eighths(t.low), power_of_eighths(t.high)}; }
inline double sum(Doubles a) {
  const __m512d eight = _mm512_add_pd(a.low, a.high);
  const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

using Ints = __m512i;
inline Ints set_ints(int32_t x) { return _mm512_set1_epi32(x); }
inline Ints load_ints(const uint8_t* p) { return _mm512_loadu_si512(p); }
inline void store_ints(int32_t* p, Ints a) { _mm512_storeu_si512(p, a); }
inline Ints add_ints(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
inline Vec to_floats(Ints a) { return _mm512_cvtepi32_ps(a); }
inline int32_t sum_ints(Ints a) {
  const __m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
inline void store_int8(int8_t* p, int64_t n, Vec a) {
  if (n >= 16) return _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_castps_si512(a)));
  _mm512_mask_cvtepi32_storeu_epi8(p, lanes_below(n), _mm512_castps_si512(a));
}
inline void store_int16(int16_t* p, int64_t n, Vec a) {
  _mm512_mask_cvtepi32_storeu_epi16(p, lanes_below(n), _mm512_castps_si512(a));
}
// The same 4 bytes in every lane.
inline Ints broadcast(const uint8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, sizeof word);
  return _mm512_set1_epi32(word);
}
inline Vec load_fours(const float* a, const float* b, const float* c, const float* d) {
  Vec all = _mm512_castps128_ps512(_mm_loadu_ps(a));
  all = _mm512_mask_broadcast_f32x4(all, 0x00f0, _mm_loadu_ps(b));
  all = _mm512_mask_broadcast_f32x4(all, 0x0f00, _mm_loadu_ps(c));
  return _mm512_mask_broadcast_f32x4(all, 0xf000, _mm_loadu_ps(d));
}
inline void transpose_fours(Vec (&a)[4]) {
  const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(a[0], a[1]));
  const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(a[2], a[3]));
  const __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(a[0], a[1]));
  const __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(a[2], a[3]));
  a[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23));
  a[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23));
  a[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23));
  a[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23));
}
inline void add_fours(float* p, Vec a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1)));
}

inline Vec load_words(const uint16_t* p) {
  return to_floats(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
}
