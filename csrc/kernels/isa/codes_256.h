// Look-ups of 4-bit codes in 256 bits, for up to kMost rows at a time: the part that the AVX2 tables share with those
// of AVX-512, as some processors have twice as many shuffles of 256 bits a cycle. Included as avx2_lanes.h is.
template <int kMost>
struct CodesIn256 {
  static constexpr bool kByToken = false;
  using Bytes = __m256i;
  static constexpr int kBytes = 32, kRows = kMost;
  static Bytes load(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static Bytes zero() { return _mm256_setzero_si256(); }
  static Bytes low(Bytes x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
  static Bytes high(Bytes x) { return _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(15)); }
  static Bytes look_up(const uint8_t* table, Bytes codes) {
    const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(words), codes);
  }
  static Bytes add_bytes(Bytes a, Bytes b) { return _mm256_add_epi8(a, b); }
  static Bytes add_words(Bytes a, Bytes b) { return _mm256_add_epi16(a, b); }
  static Bytes add_upper(Bytes total, Bytes x) { return _mm256_add_epi16(total, _mm256_srli_epi16(x, 8)); }
  static void store(uint16_t* to, Bytes x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), x); }
  static void store_even(uint16_t* to, Bytes total, Bytes odd) {
    store(to, _mm256_sub_epi16(total, _mm256_slli_epi16(odd, 8)));
  }
};
