// a * b + c, rounded once.
#pragma once

#include <cstdint>
#include <cstring>

namespace sharpbeam {

#ifdef _WIN32  // whose C library has an fma that rounds twice

// x + y = sum + *error.
inline double exact_sum(double x, double y, double* error) {
  const double sum = x + y, part = sum - x;
  *error = (x - (sum - part)) + (y - part);
  return sum;
}

// x + y rounded to odd: a sum of it and a much larger number is rounded as that of the exact one.
inline double odd_sum(double x, double y) {
  double error;
  const double sum = exact_sum(x, y, &error);
  int64_t bits;
  std::memcpy(&bits, &sum, sizeof bits);
  if (error == 0.0 || error - error != 0.0 || (bits & 1) != 0) return sum;
  bits += (error > 0.0) == (sum > 0.0) ? 1 : -1;
  double odd;
  std::memcpy(&odd, &bits, sizeof odd);
  return odd;
}

inline float fused(float a, float b, float c) { return static_cast<float>(odd_sum(double{a} * b, c)); }

// Boldo and Melquiond, Emulation of FMA and correctly rounded sums (2008); for numbers far from overflow and underflow.
inline double fused(double a, double b, double c) {
  constexpr double kSplit = 0x1p27 + 1.0;
  const double a_high = kSplit * a - (kSplit * a - a), a_low = a - a_high;
  const double b_high = kSplit * b - (kSplit * b - b), b_low = b - b_high;
  const double product = a * b;
  const double rest = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low;
  double low, error;
  const double sum = exact_sum(c, rest, &low);
  const double high = exact_sum(product, sum, &error);
  const double result = high + odd_sum(low, error);
  return result - result == 0.0 ? result : product + c;
}

#else
inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
#endif

}  // namespace sharpbeam
