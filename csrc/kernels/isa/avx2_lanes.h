// 16 lanes as two 256-bit registers: the part that avx2.cpp and avxvnni.cpp share. Included by each inside its
// anonymous namespace, so that each has its own copy, compiled with its own flags.

constexpr int kBlockRows = 3;  // 3 x 2 x 2 accumulators, 3 broadcasts, 1 weight: the 16 registers
constexpr int kBlockVecs = 2;
constexpr int kRowVecs = 4;

struct Vec {
  __m256 low, high;
};
using Mask = Vec;

inline Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline Vec load(const sharpbeam::BFloat16* p) {
  const auto widened = [](const sharpbeam::BFloat16* from) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  };
  return {widened(p), widened(p + 8)};
}
inline void store(float* p, Vec a) {
  _mm256_storeu_ps(p, a.low);
  _mm256_storeu_ps(p + 8, a.high);
}
// All ones in the lanes first, first + 1, .. that are below n.
inline __m256i lanes_below(int64_t n, int first) {
  const int limit = n > 16 ? 16 : n < 0 ? 0 : static_cast<int>(n);
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(limit - first), lane);
}
inline Vec load_part(const float* p, int64_t n, float fill) {
  const __m256i low = lanes_below(n, 0), high = lanes_below(n, 8);
  const __m256 other = _mm256_set1_ps(fill);
  return {_mm256_blendv_ps(other, _mm256_maskload_ps(p, low), _mm256_castsi256_ps(low)),
          _mm256_blendv_ps(other, _mm256_maskload_ps(p + 8, high), _mm256_castsi256_ps(high))};
}
inline void store_part(float* p, int64_t n, Vec a) {
  _mm256_maskstore_ps(p, lanes_below(n, 0), a.low);
  _mm256_maskstore_ps(p + 8, lanes_below(n, 8), a.high);
}
inline Vec set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Vec add(Vec a, Vec b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline Vec sub(Vec a, Vec b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline Vec mul(Vec a, Vec b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline Vec div(Vec a, Vec b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
inline Vec fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
inline Vec abs(Vec a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
}
inline Vec copysign(Vec size, Vec from) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(_mm256_andnot_ps(sign, size.low), _mm256_and_ps(sign, from.low)),
          _mm256_or_ps(_mm256_andnot_ps(sign, size.high), _mm256_and_ps(sign, from.high))};
}
inline Mask less(Vec a, Vec b) {
  return {_mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ)};
}
inline uint32_t bits(Mask mask) {
  return static_cast<uint32_t>(_mm256_movemask_ps(mask.low)) | static_cast<uint32_t>(_mm256_movemask_ps(mask.high))
                                                                   << 8;
}
inline int64_t store_indices(int32_t* to, uint32_t mask, int32_t first) {
  int64_t count = 0;
  for (; mask != 0; mask &= mask - 1) to[count++] = first + __builtin_ctz(mask);
  return count;
}
inline Vec select(Mask mask, Vec yes, Vec no) {
  return {_mm256_blendv_ps(no.low, yes.low, mask.low), _mm256_blendv_ps(no.high, yes.high, mask.high)};
}
inline __m256 power_of_two(__m256 t) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(exponent, _mm256_set1_epi32(0x3f800000)));
}
inline Vec power_of_two(Vec t) { return {power_of_two(t.low), power_of_two(t.high)}; }
inline float sum(Vec a) {
  const __m256 eight = _mm256_add_ps(a.low, a.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float max_lane(Vec a) {
  const __m256 eight = _mm256_max_ps(a.low, a.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// The low 16 bits of all lanes, in their order.
inline __m256i low_words(Vec a) {
  const __m256i mask = _mm256_set1_epi32(0xffff);
  const __m256i low = _mm256_and_si256(_mm256_castps_si256(a.low), mask);
  const __m256i high = _mm256_and_si256(_mm256_castps_si256(a.high), mask);
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
}
inline void store_int8(int8_t* p, int64_t n, Vec a) {
  const __m256i bytes = _mm256_and_si256(low_words(a), _mm256_set1_epi16(0xff));
  alignas(16) int8_t lane[16];
  int8_t* to = n >= 16 ? p : lane;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm_packus_epi16(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1)));
  for (int i = 0; i < n && n < 16; ++i) p[i] = lane[i];
}
inline void store_int16(int16_t* p, int64_t n, Vec a) {
  int16_t lane[16];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(n >= 16 ? p : lane), low_words(a));
  for (int i = 0; i < n && n < 16; ++i) p[i] = lane[i];
}
inline __m256 load_two(const float* a, const float* b) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(a)), _mm_loadu_ps(b), 1);
}
inline Vec load_fours(const float* a, const float* b, const float* c, const float* d) {
  return {load_two(a, b), load_two(c, d)};
}
inline void transpose_fours(__m256& a, __m256& b, __m256& c, __m256& d) {
  const __m256d low_ab = _mm256_castps_pd(_mm256_unpacklo_ps(a, b));
  const __m256d low_cd = _mm256_castps_pd(_mm256_unpacklo_ps(c, d));
  const __m256d high_ab = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
  const __m256d high_cd = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
  a = _mm256_castpd_ps(_mm256_unpacklo_pd(low_ab, low_cd));
  b = _mm256_castpd_ps(_mm256_unpackhi_pd(low_ab, low_cd));
  c = _mm256_castpd_ps(_mm256_unpacklo_pd(high_ab, high_cd));
  d = _mm256_castpd_ps(_mm256_unpackhi_pd(high_ab, high_cd));
}
inline void transpose_fours(Vec (&a)[4]) {
  transpose_fours(a[0].low, a[1].low, a[2].low, a[3].low);
  transpose_fours(a[0].high, a[1].high, a[2].high, a[3].high);
}

inline void add_fours(float* p, Vec a) {
  const __m256 eight = _mm256_add_ps(a.low, a.high);
  _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1)));
}

struct Doubles {
  __m256d quarter[4];
};

// Evaluates `expression` for each quarter i.
#define SHARPBEAM_QUARTERS(expression)                     \
  Doubles out;                                             \
  for (int i = 0; i < 4; ++i) out.quarter[i] = expression; \
  return out

inline Doubles set_double(double x) { SHARPBEAM_QUARTERS(_mm256_set1_pd(x)); }
inline Doubles widen(Vec a) {
  return {{_mm256_cvtps_pd(_mm256_castps256_ps128(a.low)), _mm256_cvtps_pd(_mm256_extractf128_ps(a.low, 1)),
           _mm256_cvtps_pd(_mm256_castps256_ps128(a.high)), _mm256_cvtps_pd(_mm256_extractf128_ps(a.high, 1))}};
}
inline Vec narrow(const Doubles& a) {
  const auto join = [](__m256d low, __m256d high) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(low)), _mm256_cvtpd_ps(high), 1);
  };
  return {join(a.quarter[0], a.quarter[1]), join(a.quarter[2], a.quarter[3])};
}
inline Doubles load_doubles(const double* p) { SHARPBEAM_QUARTERS(_mm256_loadu_pd(p + 4 * i)); }
// All ones in the lanes 4 i, 4 i + 1, .. that are below n.
inline __m256i doubles_below(int64_t n, int i) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n - 4 * i), _mm256_setr_epi64x(0, 1, 2, 3));
}
inline Doubles load_doubles(const double* p, int64_t n) {
  SHARPBEAM_QUARTERS(_mm256_maskload_pd(p + 4 * i, doubles_below(n, i)));
}
inline void store_doubles(double* p, const Doubles& a) {
  for (int i = 0; i < 4; ++i) _mm256_storeu_pd(p + 4 * i, a.quarter[i]);
}
inline void store_doubles(double* p, int64_t n, const Doubles& a) {
  for (int i = 0; i < 4; ++i) _mm256_maskstore_pd(p + 4 * i, doubles_below(n, i), a.quarter[i]);
}
inline Doubles add(const Doubles& a, const Doubles& b) {
  SHARPBEAM_QUARTERS(_mm256_add_pd(a.quarter[i], b.quarter[i]));
}
inline Doubles sub(const Doubles& a, const Doubles& b) {
  SHARPBEAM_QUARTERS(_mm256_sub_pd(a.quarter[i], b.quarter[i]));
}
inline Doubles mul(const Doubles& a, const Doubles& b) {
  SHARPBEAM_QUARTERS(_mm256_mul_pd(a.quarter[i], b.quarter[i]));
}
inline Doubles div(const Doubles& a, const Doubles& b) {
  SHARPBEAM_QUARTERS(_mm256_div_pd(a.quarter[i], b.quarter[i]));
}
inline Doubles fma(const Doubles& a, const Doubles& b, const Doubles& c) {
  SHARPBEAM_QUARTERS(_mm256_fmadd_pd(a.quarter[i], b.quarter[i], c.quarter[i]));
}
// x last in max and min: they return their last operand where it is a NaN.
inline Doubles clamp(const Doubles& a, double most) {
  SHARPBEAM_QUARTERS(_mm256_min_pd(_mm256_set1_pd(most), _mm256_max_pd(_mm256_set1_pd(-most), a.quarter[i])));
}
// A table lookup by permutation: one register holds the low halves of the entries, one the high halves.
inline __m256d power_of_eighths(__m256d t) {
  const __m256i first = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sharpbeam::kEighths));
  const __m256i second = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sharpbeam::kEighths + 4));
  const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
  const __m256i ends = _mm256_permutevar8x32_epi32(first, order), more = _mm256_permutevar8x32_epi32(second, order);
  const __m256i low = _mm256_permute2x128_si256(ends, more, 0x20), high = _mm256_permute2x128_si256(ends, more, 0x31);
  const __m256i n = _mm256_castpd_si256(t);
  const __m256i eighth = _mm256_blend_epi32(_mm256_permutevar8x32_epi32(low, n),
                                            _mm256_permutevar8x32_epi32(high, _mm256_slli_epi64(n, 32)), 0xaa);
  return _mm256_castsi256_pd(_mm256_add_epi64(eighth, _mm256_slli_epi64(n, 49)));
}
inline Doubles power_of_eighths(const Doubles& t) { SHARPBEAM_QUARTERS(power_of_eighths(t.quarter[i])); }
inline double sum(const Doubles& a) {
  const __m256d four =
      _mm256_add_pd(_mm256_add_pd(a.quarter[0], a.quarter[2]), _mm256_add_pd(a.quarter[1], a.quarter[3]));
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}
#undef SHARPBEAM_QUARTERS

struct Ints {
  __m256i low, high;
};
inline Ints set_ints(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline Ints add_ints(Ints a, Ints b) { return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)}; }
inline void store_ints(int32_t* p, Ints a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.low);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), a.high);
}
inline Vec to_floats(Ints a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }

inline __m256i load_ints(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
// The same 4 bytes in every lane.
inline __m256i broadcast(const uint8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, sizeof word);
  return _mm256_set1_epi32(word);
}
inline int32_t sum_ints(Ints a) {
  const __m256i eight = _mm256_add_epi32(a.low, a.high);
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}
inline Vec load_words(const uint16_t* p) {
  const __m128i* from = reinterpret_cast<const __m128i*>(p);
  return to_floats({_mm256_cvtepu16_epi32(_mm_loadu_si128(from)), _mm256_cvtepu16_epi32(_mm_loadu_si128(from + 1))});
}
