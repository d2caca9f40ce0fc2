// The reference: 16 lanes as an array, for the baseline of the processor family. Slow where fma is a library call.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/fused.h"
#include "kernels/isa_tables.h"

namespace {

constexpr int kBlockRows = 2;  // rows and vectors of the register blocks of a gemm
constexpr int kBlockVecs = 2;
constexpr int kRowVecs = 4;  // the same, where there is one row

struct Vec {
  float lane[16];
};
using Mask = uint32_t;

// Evaluates `expression` for each lane i.
#define SHARPBEAM_LANES(expression)                      \
  Vec out;                                               \
  for (int i = 0; i < 16; ++i) out.lane[i] = expression; \
  return out

inline Vec load(const float* p) { SHARPBEAM_LANES(p[i]); }
inline Vec load(const sharpbeam::BFloat16* p) { SHARPBEAM_LANES(__builtin_bit_cast(float, p[i].bits << 16)); }
inline Vec load_part(const float* p, int64_t n, float fill) { SHARPBEAM_LANES(i < n ? p[i] : fill); }
inline void store(float* p, const Vec& a) {
  for (int i = 0; i < 16; ++i) p[i] = a.lane[i];
}
inline void store_part(float* p, int64_t n, const Vec& a) {
  for (int i = 0; i < 16 && i < n; ++i) p[i] = a.lane[i];
}
inline Vec set(float x) { SHARPBEAM_LANES(x); }
inline Vec add(const Vec& a, const Vec& b) { SHARPBEAM_LANES(a.lane[i] + b.lane[i]); }
inline Vec sub(const Vec& a, const Vec& b) { SHARPBEAM_LANES(a.lane[i] - b.lane[i]); }
inline Vec mul(const Vec& a, const Vec& b) { SHARPBEAM_LANES(a.lane[i] * b.lane[i]); }
inline Vec div(const Vec& a, const Vec& b) { SHARPBEAM_LANES(a.lane[i] / b.lane[i]); }
inline Vec fma(const Vec& a, const Vec& b, const Vec& c) {
  SHARPBEAM_LANES(sharpbeam::fused(a.lane[i], b.lane[i], c.lane[i]));
}
inline Vec max(const Vec& a, const Vec& b) { SHARPBEAM_LANES(a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]); }
inline Vec abs(const Vec& a) { SHARPBEAM_LANES(__builtin_fabsf(a.lane[i])); }
inline Vec copysign(const Vec& size, const Vec& sign) {
  SHARPBEAM_LANES(__builtin_copysignf(size.lane[i], sign.lane[i]));
}
inline Mask less(const Vec& a, const Vec& b) {
  Mask mask = 0;
  for (int i = 0; i < 16; ++i) mask |= static_cast<Mask>(a.lane[i] < b.lane[i]) << i;
  return mask;
}
inline uint32_t bits(Mask mask) { return mask; }
inline int64_t store_indices(int32_t* to, uint32_t mask, int32_t first) {
  int64_t count = 0;
  for (; mask != 0; mask &= mask - 1) to[count++] = first + __builtin_ctz(mask);
  return count;
}
inline Vec select(Mask mask, const Vec& yes, const Vec& no) {
  SHARPBEAM_LANES((mask >> i & 1) ? yes.lane[i] : no.lane[i]);
}
inline float power_of_bits(float t) {
  uint32_t word;
  std::memcpy(&word, &t, sizeof word);
  word = (word << 23) + 0x3f800000u;
  std::memcpy(&t, &word, sizeof t);
  return t;
}
inline Vec power_of_two(const Vec& t) { SHARPBEAM_LANES(power_of_bits(t.lane[i])); }
// Of a Vec or of Doubles.
template <typename Lanes>
inline auto sum(const Lanes& a) {
  Lanes half = a;
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) half.lane[i] = half.lane[i] + half.lane[i + width];
  }
  return half.lane[0];
}
inline float max_lane(const Vec& a) {
  Vec half = a;
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) {
      half.lane[i] = half.lane[i] > half.lane[i + width] ? half.lane[i] : half.lane[i + width];
    }
  }
  return half.lane[0];
}

inline void store_int8(int8_t* p, int64_t n, const Vec& a) {
  for (int i = 0; i < 16 && i < n; ++i) {
    int32_t word;
    std::memcpy(&word, a.lane + i, sizeof word);
    p[i] = static_cast<int8_t>(word);
  }
}
inline void store_int16(int16_t* p, int64_t n, const Vec& a) {
  for (int i = 0; i < 16 && i < n; ++i) {
    int32_t word;
    std::memcpy(&word, a.lane + i, sizeof word);
    p[i] = static_cast<int16_t>(word);
  }
}
inline Vec load_fours(const float* a, const float* b, const float* c, const float* d) {
  const float* from[] = {a, b, c, d};
  SHARPBEAM_LANES(from[i / 4][i % 4]);
}
inline void transpose_fours(Vec (&a)[4]) {
  for (int c = 0; c < 4; ++c) {
    for (int i = 0; i < 16; ++i) {
      if (i % 4 > c) std::swap(a[c].lane[i], a[i % 4].lane[i - i % 4 + c]);
    }
  }
}

inline void add_fours(float* p, const Vec& a) {
  for (int j = 0; j < 4; ++j) p[j] = (a.lane[j] + a.lane[j + 8]) + (a.lane[j + 4] + a.lane[j + 12]);
}

struct Doubles {
  double lane[16];
};

#define SHARPBEAM_DOUBLES(expression)                    \
  Doubles out;                                           \
  for (int i = 0; i < 16; ++i) out.lane[i] = expression; \
  return out

inline Doubles set_double(double x) { SHARPBEAM_DOUBLES(x); }
inline Doubles widen(const Vec& a) { SHARPBEAM_DOUBLES(double{a.lane[i]}); }
inline Vec narrow(const Doubles& a) { SHARPBEAM_LANES(static_cast<float>(a.lane[i])); }
inline Doubles load_doubles(const double* p) { SHARPBEAM_DOUBLES(p[i]); }
inline Doubles load_doubles(const double* p, int64_t n) { SHARPBEAM_DOUBLES(i < n ? p[i] : 0.0); }
inline void store_doubles(double* p, const Doubles& a) {
  for (int i = 0; i < 16; ++i) p[i] = a.lane[i];
}
inline void store_doubles(double* p, int64_t n, const Doubles& a) {
  for (int i = 0; i < 16 && i < n; ++i) p[i] = a.lane[i];
}
inline Doubles add(const Doubles& a, const Doubles& b) { SHARPBEAM_DOUBLES(a.lane[i] + b.lane[i]); }
inline Doubles sub(const Doubles& a, const Doubles& b) { SHARPBEAM_DOUBLES(a.lane[i] - b.lane[i]); }
inline Doubles mul(const Doubles& a, const Doubles& b) { SHARPBEAM_DOUBLES(a.lane[i] * b.lane[i]); }
inline Doubles div(const Doubles& a, const Doubles& b) { SHARPBEAM_DOUBLES(a.lane[i] / b.lane[i]); }
inline Doubles fma(const Doubles& a, const Doubles& b, const Doubles& c) {
  SHARPBEAM_DOUBLES(sharpbeam::fused(a.lane[i], b.lane[i], c.lane[i]));
}
inline Doubles clamp(const Doubles& a, double most) {
  SHARPBEAM_DOUBLES(a.lane[i] > most ? most : a.lane[i] < -most ? -most : a.lane[i]);
}
inline double power_of_eighths(double t) {
  uint64_t word;
  std::memcpy(&word, &t, sizeof word);
  word = sharpbeam::kEighths[word % 8] + (word << 49);
  std::memcpy(&t, &word, sizeof t);
  return t;
}
inline Doubles power_of_eighths(const Doubles& t) { SHARPBEAM_DOUBLES(power_of_eighths(t.lane[i])); }
#undef SHARPBEAM_DOUBLES

struct Ints {
  int32_t lane[16];
};
inline Ints set_ints(int32_t x) {
  Ints out;
  for (int32_t& lane : out.lane) lane = x;
  return out;
}
inline Vec to_floats(const Ints& a) { SHARPBEAM_LANES(static_cast<float>(a.lane[i])); }

// Shared by both integer types, which need no unpacking.
struct Integers {
  using Weights = const uint8_t*;
  using Inputs = const uint8_t*;
  static constexpr int kRows = 2;
  static constexpr int vecs(int) { return 2; }
  static Weights load_weights(const uint8_t* p) { return p; }
  static Inputs load_inputs(const uint8_t* p) { return p; }
};
struct Int8 : Integers {
  static constexpr bool kUnsignedWeights = true;
  static Ints dot(Ints total, Weights w, Inputs x) {
    for (int i = 0; i < 16; ++i) {
      for (int b = 0; b < 4; ++b) total.lane[i] += int32_t{w[4 * i + b]} * static_cast<int8_t>(x[b]);
    }
    return total;
  }
  static Ints add_inputs(Ints total, const int8_t* x) {
    for (int i = 0; i < 64; ++i) total.lane[i / 4] += x[i];
    return total;
  }
};
struct Int16 : Integers {
  static constexpr bool kUnsignedWeights = false;
  static Ints dot(Ints total, Weights w, Inputs x) {
    int16_t weight[32], input[2];
    std::memcpy(weight, w, sizeof weight);
    std::memcpy(input, x, sizeof input);
    for (int i = 0; i < 16; ++i) {
      for (int b = 0; b < 2; ++b) total.lane[i] += int32_t{weight[2 * i + b]} * input[b];
    }
    return total;
  }
};

inline void store_ints(int32_t* p, const Ints& a) { std::memcpy(p, a.lane, sizeof a.lane); }
inline int32_t sum_ints(const Ints& a) {
  int32_t total = 0;
  for (int32_t lane : a.lane) total += lane;
  return total;
}

inline Vec load_words(const uint16_t* p) { SHARPBEAM_LANES(static_cast<float>(p[i])); }

struct Codes {
  static constexpr bool kByToken = false;
  static constexpr int kBytes = 64, kRows = 1;
  struct Bytes {
    uint8_t byte[kBytes];
  };
  static Bytes load(const uint8_t* p) {
    return each([=](int i) { return p[i]; });
  }
  static Bytes zero() { return {}; }
  static Bytes low(const Bytes& x) {
    return each([&](int i) { return x.byte[i] & 15; });
  }
  static Bytes high(const Bytes& x) {
    return each([&](int i) { return x.byte[i] >> 4; });
  }
  static Bytes look_up(const uint8_t* table, const Bytes& codes) {
    return each([&](int i) { return table[codes.byte[i]]; });
  }
  static Bytes add_bytes(const Bytes& a, const Bytes& b) {
    return each([&](int i) { return a.byte[i] + b.byte[i]; });
  }
  static Bytes add_words(const Bytes& a, const Bytes& b) {
    return words([&](int i) { return word(a, i) + word(b, i); });
  }
  static Bytes add_upper(const Bytes& total, const Bytes& x) {
    return words([&](int i) { return word(total, i) + (word(x, i) >> 8); });
  }
  static void store(uint16_t* to, const Bytes& x) {
    for (int i = 0; i < kBytes / 2; ++i) to[i] = word(x, i);
  }
  static void store_even(uint16_t* to, const Bytes& total, const Bytes& odd) {
    store(to, words([&](int i) { return word(total, i) - 256 * word(odd, i); }));
  }

 private:
  template <typename Byte>
  static Bytes each(Byte value) {
    Bytes out;
    for (int i = 0; i < kBytes; ++i) out.byte[i] = static_cast<uint8_t>(value(i));
    return out;
  }
  template <typename Word>
  static Bytes words(Word value) {
    return each([&](int i) { return value(i / 2) >> (i % 2 * 8); });
  }
  static uint16_t word(const Bytes& x, int i) { return static_cast<uint16_t>(x.byte[2 * i] + 256 * x.byte[2 * i + 1]); }
};

#undef SHARPBEAM_LANES

#include "kernels/body/body.h"

}  // namespace

namespace sharpbeam {
constinit const Kernels kScalarKernels = make_table("scalar");
}
