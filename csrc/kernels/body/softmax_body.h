// Softmax, sums of exponentials, and maxima. Part of body.h.

// The maximum of n >= 1 numbers; a NaN may be skipped.
inline float maximum(const float* x, int64_t n) {
  Vec top[4] = {set(-kInfinity), set(-kInfinity), set(-kInfinity), set(-kInfinity)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) top[c] = max(top[c], load(x + i + c * kLanes));
  }
  for (; i < n; i += kLanes) top[0] = max(top[0], load_part(x + i, n - i, -kInfinity));
  return max_lane(max(max(top[0], top[1]), max(top[2], top[3])));
}

// The value subtracted before exp: the maximum, or 0 where all are -inf.
inline float shift_of(float top) { return top == -kInfinity ? 0.0f : top; }

// kRows rows at once: a short row alone is one chain of dependent operations.
template <int kRows>
inline void softmax_rows(float* x, int64_t n) {
  Vec top[kRows], total[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) top[r] = set(-kInfinity), total[r] = set(0.0f);
  for_each(n, [&](auto at, auto) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) top[r] = max(top[r], at(x + r * n, -kInfinity));
  });
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) top[r] = set(shift_of(max_lane(top[r])));
  for_each(n, [&](auto at, auto put) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const Vec e = exp_nonpositive(sub(at(x + r * n, -kInfinity), top[r]));
      put(x + r * n, e);
      total[r] = add(total[r], e);
    }
  });
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) total[r] = set(sum(total[r]));
  for_each(n, [&](auto at, auto put) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) put(x + r * n, div(at(x + r * n, 0.0f), total[r]));
  });
}

void softmax_kernel(float* x, int64_t rows, int64_t n) {
  if (n <= 0) return;
  for (; rows >= 4; rows -= 4, x += 4 * n) softmax_rows<4>(x, n);
  for (; rows > 0; --rows, x += n) softmax_rows<1>(x, n);
}

// The natural logarithm of a normal x > 0 to about 1e-13, of 0, and of NaN. libm may choose its code by the machine,
// so its bits may differ from one to another. x = 2^e m with m in [sqrt 1/2, sqrt 2); log m = 2 atanh(f), f = (m - 1) /
// (m + 1).
inline double log_of(double x) {
  if (x == 0.0) return -__builtin_inf();
  if (!(x < __builtin_inf())) return x;
  uint64_t word;
  __builtin_memcpy(&word, &x, sizeof word);
  int64_t e = static_cast<int64_t>(word >> 52) - 1023;
  word = (word & 0x000fffffffffffffull) | 0x3ff0000000000000ull;
  double m;
  __builtin_memcpy(&m, &word, sizeof m);
  if (m > 0x1.6a09e667f3bcdp+0) {
    m = m * 0.5;
    e = e + 1;
  }
  const double f = (m - 1.0) / (m + 1.0);
  const double g = f * f;
  double series = 1.0 / 17.0;
  for (int n = 15; n >= 1; n -= 2) series = series * g + 1.0 / n;
  return static_cast<double>(e) * 0x1.62e42fefa39efp-1 + 2.0 * f * series;
}

// Vectors that are summed up in floats: a lane whose sum is 1 takes nothing below 6e-8 any more, and of a large
// vocabulary such tokens have a part that counts together.
constexpr int64_t kVectorsInFloat = 16;

float log_sum_exp_below_kernel(const float* x, float top, int64_t n) {
  top = shift_of(top);
  const Vec shift = set(top);
  Doubles all = set_double(0.0);
  for (int64_t i = 0; i < n;) {
    const int64_t stop = n - i > kVectorsInFloat * kLanes ? i + kVectorsInFloat * kLanes : n;
    Vec total = set(0.0f);
    for (; i + kLanes <= stop; i += kLanes) total = add_exp(total, sub(load(x + i), shift));
    if (i < stop) total = add_exp(total, sub(load_part(x + i, stop - i, -kInfinity), shift));
    i = stop;
    all = add(all, widen(total));
  }
  return static_cast<float>(static_cast<double>(top) + log_of(sum(all)));
}

float log_sum_exp_kernel(const float* x, int64_t n) {
  return n <= 0 ? -kInfinity : log_sum_exp_below_kernel(x, maximum(x, n), n);
}

void panel_maxima_kernel(const float* x, int64_t panels, float* top) {
  for (int64_t p = 0; p < panels; ++p, x += kPanel) {
    Vec most[2] = {set(-kInfinity), set(-kInfinity)};
#pragma GCC unroll 4
    for (int64_t i = 0; i < kPanel; i += 2 * kLanes) {
      most[0] = max(load(x + i), most[0]);
      most[1] = max(load(x + i + kLanes), most[1]);
    }
    top[p] = max_lane(max(most[0], most[1]));
  }
}

float sum_exp_in_panels_kernel(const float* x, float top, const int32_t* panel, int64_t panels) {
  const Vec shift = set(top);
  Doubles all = set_double(0.0);
  for (int64_t p = 0; p < panels; ++p) {
    const float* from = x + int64_t{panel[p]} * kPanel;
    Vec total = set(0.0f);
#pragma GCC unroll 4
    for (int64_t i = 0; i < kPanel; i += kLanes) total = add_exp(total, sub(load(from + i), shift));
    all = add(all, widen(total));
  }
  return static_cast<float>(sum(all));
}
