// Recurrent layers and their attention, without the matmuls: tanh, sigmoid, cell updates. Part of body.h.
//
// All but the sums of gates is computed in double and rounded once at the end, so that the result is the float nearest
// to the exact value but for some of 10,000 cases. Any other sufficiently exact computation, such as the C library's in
// double, then gives the same float. That matters where matmuls quantize their inputs: one last bit may round to
// another integer.

constexpr double kRoundDouble = 0x1.8p52;  // adding it rounds to an integer, kept in the low bits
constexpr double kMaxExponent = 200;       // largest argument of exp: the product of three results stays finite

// exp(x) = scale + scale * rest, for |x| <= 700.
struct DoubleExp {
  Doubles scale;  // 2^(n / 8), n = 8 x / ln 2 rounded
  Doubles rest;   // expm1(x - n ln 2 / 8)

  Doubles exp() const { return fma(scale, rest, scale); }
  Doubles one_more() const { return fma(scale, rest, add(scale, set_double(1.0))); }  // exp(x) + 1
  Doubles one_less() const { return fma(scale, rest, sub(scale, set_double(1.0))); }  // exp(x) - 1, also near zero
};

inline DoubleExp split_exp(Doubles x) {
  const Doubles t = fma(x, set_double(0x1.71547652b82fep+3), set_double(kRoundDouble));  // 8 / ln 2
  const Doubles r = fma(sub(t, set_double(kRoundDouble)), set_double(-0x1.62e42fefa39efp-4), x);
  // (expm1(r) - r) / r^2, minimax on |r| <= ln 2 / 16: relative error of expm1 below 2^-36, of exp below 2^-40.
  const Doubles square = mul(r, r);
  const Doubles high = fma(set_double(0x1.1111cc03840dap-7), r, set_double(0x1.555c275fe06afp-5));
  const Doubles low = fma(set_double(0x1.5555556271e4cp-3), r, set_double(0x1.ffffffe5e40dap-2));
  return {power_of_eighths(t), fma(square, fma(square, high, low), r)};
}

// exp of x clamped to +-kMaxExponent; NaN stays NaN.
inline DoubleExp bounded_exp(Doubles x) { return split_exp(clamp(x, kMaxExponent)); }

// exp(-x) and exp(2 x): sigmoid(x) = 1 / (1 + exp(-x)), tanh(x) = (exp(2 x) - 1) / (exp(2 x) + 1).
inline DoubleExp sigmoid_exp(Vec x) { return bounded_exp(widen(sub(set(0.0f), x))); }
inline DoubleExp tanh_exp(Doubles x) { return bounded_exp(add(x, x)); }

inline Doubles sigmoid_doubles(Vec x) { return div(set_double(1.0), sigmoid_exp(x).one_more()); }

void tanh_kernel(float* x, int64_t n) {
  for_each(n, [=](auto at, auto put) __attribute__((always_inline)) {
    const Vec a = at(x, 0.0f);
    const DoubleExp e = tanh_exp(widen(a));
    put(x, copysign(narrow(div(e.one_less(), e.one_more())), a));  // the sign for -0
  });
}

// Cells are updated in two passes over some units each: the chain of operations from the gates to the result is longer
// than the processor's out-of-order window.
constexpr int64_t kUnits = 8 * kLanes;

// With z = 1 / (1 + Z) and n = (N - 1) / (N + 1), n + z (state - n) is one fraction: one division less.
void gru_kernel(const float* input, const float* hidden, const float* state, float* next, int64_t dim) {
  double inner[kUnits], update[kUnits];  // what tanh is taken of; Z
  for (int64_t first = 0; first < dim; first += kUnits) {
    const int64_t end = first + kUnits < dim ? first + kUnits : dim;
    const auto at = [=](const float* p, int64_t i) {
      return end - i >= kLanes ? load(p + i) : load_part(p + i, end - i, 0.0f);
    };
    for (int64_t i = first; i < end; i += kLanes) {
      const Doubles r = sigmoid_doubles(add(at(input, i), at(hidden, i)));
      const Doubles n = fma(r, widen(at(hidden + 2 * dim, i)), widen(at(input + 2 * dim, i)));
      store_doubles(inner + i - first, n);
      store_doubles(update + i - first, sigmoid_exp(add(at(input + dim, i), at(hidden + dim, i))).exp());
    }
    for (int64_t i = first; i < end; i += kLanes) {
      const DoubleExp n = tanh_exp(load_doubles(inner + i - first));
      const Doubles z = load_doubles(update + i - first), more = n.one_more();
      const Doubles top = fma(z, n.one_less(), mul(widen(at(state, i)), more));
      store_part(next + i, end - i, narrow(div(top, mul(add(z, set_double(1.0)), more))));
    }
  }
}

// As above, f = 1 / (1 + F), i = 1 / (1 + I), g = (G - 1) / (G + 1), and f cell + i g as one fraction.
void lstm_kernel(const float* input, const float* hidden, const float* cell, float* next, float* output, int64_t dim) {
  double cells[kUnits];
  for (int64_t first = 0; first < dim; first += kUnits) {
    const int64_t end = first + kUnits < dim ? first + kUnits : dim;
    const auto at = [=](const float* p, int64_t d) {
      return end - d >= kLanes ? load(p + d) : load_part(p + d, end - d, 0.0f);
    };
    const auto gate = [=](int64_t k, int64_t d) { return add(at(input + k * dim, d), at(hidden + k * dim, d)); };
    for (int64_t d = first; d < end; d += kLanes) {
      const Doubles i = sigmoid_exp(gate(0, d)).one_more(), f = sigmoid_exp(gate(1, d)).one_more();
      const DoubleExp g = tanh_exp(widen(gate(2, d)));
      const Doubles below = mul(i, g.one_more());
      const Doubles c = div(fma(widen(at(cell, d)), below, mul(g.one_less(), f)), mul(f, below));
      store_doubles(cells + d - first, c);
      store_part(next + d, end - d, narrow(c));
    }
    for (int64_t d = first; d < end; d += kLanes) {
      const DoubleExp e = tanh_exp(load_doubles(cells + d - first));
      const Doubles below = mul(sigmoid_exp(gate(3, d)).one_more(), e.one_more());
      store_part(output + d, end - d, narrow(div(e.one_less(), below)));
    }
  }
}

// ---------------------------------------------------------------------------------------------- attention

// The product of four exponentials of this size, and of the four sums with 1, stays finite.
constexpr double kMaxKey = 44;

void mlp_keys_kernel(const float* x, double* keys, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const Doubles a = clamp(widen(n - i >= kLanes ? load(x + i) : load_part(x + i, n - i, 0.0f)), kMaxKey);
    const Doubles e = split_exp(add(a, a)).exp();
    if (n - i >= kLanes) {
      store_doubles(keys + i, e);
    } else {
      store_doubles(keys + i, n - i, e);
    }
  }
}

// tanh(k + q) = 1 - 2 / (exp(2 k) exp(2 q) + 1): no exponential is taken here. Four fractions are added as one, since
// that is one division: w / a + v / b = (w b + v a) / (a b).
void mlp_scores_kernel(const double* query, const double* keys, const double* weight, float* scores, int64_t positions,
                       int64_t dim) {
  const Doubles one = set_double(1.0);
  const auto part = [=](const double* p, int64_t i) { return load_doubles(p + i, dim - i); };
  Doubles all = set_double(0.0);
  for (int64_t i = 0; i < dim; i += kLanes) all = add(all, part(weight, i));
  const double weights = sum(all);
  for (int64_t s = 0; s < positions; ++s, keys += dim) {
    const auto at = [](const double* p) { return load_doubles(p); };
    const auto below = [=](int64_t i) { return fma(at(keys + i), at(query + i), one); };
    Doubles total = set_double(0.0);
    int64_t i = 0;
    for (; i + 4 * kLanes <= dim; i += 4 * kLanes) {
      const Doubles a = below(i), b = below(i + kLanes), c = below(i + 2 * kLanes), d = below(i + 3 * kLanes);
      const Doubles ab = mul(a, b), cd = mul(c, d);
      const Doubles first = fma(at(weight + i), b, mul(at(weight + i + kLanes), a));
      const Doubles second = fma(at(weight + i + 2 * kLanes), d, mul(at(weight + i + 3 * kLanes), c));
      total = add(total, div(fma(first, cd, mul(second, ab)), mul(ab, cd)));
    }
    for (; i < dim; i += kLanes) {
      total = add(total, div(part(weight, i), fma(part(keys, i), part(query, i), one)));
    }
    scores[s] = static_cast<float>(weights - 2.0 * sum(total));
  }
}
