// Layer norm, activations, SSRU and multi-head attention. Part of body.h.

// ---------------------------------------------------------------------------------------------- norm, activations

// 1 / sqrt(mean + epsilon); NaN where the mean of squares overflows, so that the answer is no plausible zero.
inline float inverse_root(float mean, float epsilon) {
  const float inverse = 1.0f / __builtin_sqrtf(mean + epsilon);
  return inverse > 0.0f ? inverse : __builtin_nanf("");
}

void add_norm_kernel(float* x, const float* added, const float* weight, const float* bias, float epsilon, float* y,
                     int64_t n) {
  const float count = static_cast<float>(n);
  Vec total = set(0.0f);
  for_each(n, [&](auto at, auto put) {
    Vec a = at(x, 0.0f);
    if (added != nullptr) {
      a = add(a, at(added, 0.0f));
      put(x, a);
    }
    total = add(total, a);
  });
  const float mean = sum(total) / count;
  const Vec shift = set(mean);
  Vec squares = set(0.0f);
  for_each(n, [&](auto at, auto) {
    const Vec a = sub(at(x, mean), shift);
    squares = fma(a, a, squares);
  });
  const Vec inverse = set(inverse_root(sum(squares) / count, epsilon));
  for_each(n, [&](auto at, auto put) {
    put(y, fma(mul(sub(at(x, 0.0f), shift), inverse), at(weight, 0.0f), at(bias, 0.0f)));
  });
}

void add_rms_norm_kernel(float* x, const float* added, const float* weight, float epsilon, float* y, int64_t n) {
  Vec squares = set(0.0f);
  for_each(n, [&](auto at, auto put) {
    Vec a = at(x, 0.0f);
    if (added != nullptr) {
      a = add(a, at(added, 0.0f));
      put(x, a);
    }
    squares = fma(a, a, squares);
  });
  const Vec inverse = set(inverse_root(sum(squares) / static_cast<float>(n), epsilon));
  for_each(n, [&](auto at, auto put) { put(y, mul(mul(at(x, 0.0f), inverse), at(weight, 0.0f))); });
}

void add_kernel(float* x, const float* y, int64_t n) {
  for_each(n, [&](auto at, auto put) { put(x, add(at(x, 0.0f), at(y, 0.0f))); });
}

void mul_kernel(float* x, const float* y, int64_t n) {
  for_each(n, [&](auto at, auto put) { put(x, mul(at(x, 0.0f), at(y, 0.0f))); });
}

void relu_kernel(float* x, int64_t n) {
  for_each(n, [&](auto at, auto put) { put(x, max(set(0.0f), at(x, 0.0f))); });
}

void swish_kernel(float* x, float slope, int64_t n) {
  for_each(n, [&](auto at, auto put) {
    const Vec a = at(x, 0.0f);
    put(x, mul(a, sigmoid_vec(mul(set(slope), a))));
  });
}

// x * Phi(x), Phi the distribution function of the normal distribution: 1 - erfc(z) / 2 above zero, erfc(z) / 2 below,
// z = |x| / sqrt 2, with erfc by formula 7.1.26 of Abramowitz and Stegun (1964).
inline Vec gelu_vec(Vec x) {
  const Vec z = mul(abs(x), set(0x1.6a09e6p-1f));
  const Vec t = div(set(1.0f), fma(z, set(0.3275911f), set(1.0f)));
  Vec series = fma(t, set(1.061405429f), set(-1.453152027f));
  series = fma(series, t, set(1.421413741f));
  series = fma(series, t, set(-0.284496736f));
  series = fma(series, t, set(0.254829592f));
  const Vec half = mul(mul(mul(series, t), set(0.5f)), exp_nonpositive(sub(set(0.0f), mul(z, z))));
  return mul(x, select(less(x, set(0.0f)), half, sub(set(1.0f), half)));
}

void gelu_kernel(float* x, int64_t n) {
  for_each(n, [&](auto at, auto put) { put(x, gelu_vec(at(x, 0.0f))); });
}

// (1 + tanh(a)) / 2 = sigmoid(2 a).
void gelu_tanh_kernel(float* x, int64_t n) {
  for_each(n, [&](auto at, auto put) {
    const Vec a = at(x, 0.0f);
    const Vec twice =
        mul(a, fma(mul(a, a), set(0.0713548128f), set(1.59576912f)));  // 2 sqrt(2 / pi) (a + 0.044715 a^3)
    put(x, mul(a, sigmoid_vec(twice)));
  });
}

void ssru_kernel(const float* input, const float* cell, float* next, float* output, int64_t dim) {
  for_each(dim, [&](auto at, auto put) {
    const Vec x = at(input, 0.0f), keep = sigmoid_vec(at(input + dim, 0.0f));
    const Vec c = fma(keep, sub(at(cell, 0.0f), x), x);
    put(next, c);
    put(output, max(set(0.0f), c));
  });
}

// ---------------------------------------------------------------------------------------------- attention

// A head reads too little of each position for the hardware prefetcher: so all heads of some positions are computed
// before the next positions, which are prefetched meanwhile.
inline void prefetch_position(const float* from) {
  constexpr int64_t kLines = 4;  // the hardware prefetches the others
#pragma GCC unroll 4
  for (int64_t line = 0; line < kLines; ++line) __builtin_prefetch(reinterpret_cast<const char*>(from) + line * kLine);
}

// Four positions at a time: four chains hide the latency of fma, and their lanes are reduced together.
void multihead_scores_kernel(const float* query, const float* const* keys, int64_t offset, float* scores,
                             int64_t stride, int64_t positions, int64_t heads, int64_t dim) {
  for (int64_t p = 0; p < positions; p += 4) {
    const int64_t left = positions - p;
    const float* from[4];
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      from[c] = keys[p + (c < left ? c : left - 1)] + offset;
      if (4 + c < left) prefetch_position(keys[p + 4 + c] + offset);
    }
    for (int64_t h = 0; h < heads; ++h) {
      const float* q = query + h * dim;
      Vec total[4] = {set(0.0f), set(0.0f), set(0.0f), set(0.0f)};
      int64_t i = 0;
      for (; i + kLanes <= dim; i += kLanes) {
        const Vec part = load(q + i);
#pragma GCC unroll 4
        for (int c = 0; c < 4; ++c) total[c] = fma(load(from[c] + i), part, total[c]);
      }
      if (i < dim) {
        const Vec part = load_part(q + i, dim - i, 0.0f);
#pragma GCC unroll 4
        for (int c = 0; c < 4; ++c) total[c] = fma(load_part(from[c] + i, dim - i, 0.0f), part, total[c]);
      }
      transpose_fours(total);
      float four[4];
      add_fours(four, add(add(total[0], total[2]), add(total[1], total[3])));
      for (int64_t c = 0; c < 4 && c < left; ++c) scores[h * stride + p + c] = four[c];
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) from[c] += dim;
    }
  }
}

// The weighted sums of kHeads heads, kVecs vectors of each.
template <int kHeads, int kVecs>
inline void weigh_block(const float* weights, int64_t stride, const float* const* values, int64_t offset, float* out,
                        int64_t positions, int64_t left) {
  Vec total[kHeads][kVecs];
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 4
    for (int c = 0; c < kVecs; ++c) total[h][c] = set(0.0f);
  }
  for (int64_t p = 0; p < positions; ++p) {
    const float* from = values[p] + offset;
    if (p + 4 < positions) prefetch_position(values[p + 4] + offset);
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      const Vec w = set(weights[h * stride + p]);
#pragma GCC unroll 4
      for (int c = 0; c < kVecs; ++c) {
        const Vec v = kVecs > 1 ? load(from + (h * kVecs + c) * kLanes) : load_part(from, left, 0.0f);
        total[h][c] = fma(w, v, total[h][c]);
      }
    }
  }
#pragma GCC unroll 8
  for (int h = 0; h < kHeads; ++h) {
#pragma GCC unroll 4
    for (int c = 0; c < kVecs; ++c) {
      store_part(out + (h * kVecs + c) * kLanes, kVecs > 1 ? kLanes : left, total[h][c]);
    }
  }
}

void multihead_context_kernel(const float* weights, int64_t stride, const float* const* values, int64_t offset,
                              float* out, int64_t positions, int64_t heads, int64_t dim) {
  constexpr int kHeads = kBlockVecs < 4 ? 1 : 4;  // as many as the registers hold
  int64_t h = 0;
  const auto together = [&]<int kCount, int kVecs>() {
    for (; dim == kVecs * kLanes && h + kCount <= heads; h += kCount)
      weigh_block<kCount, kVecs>(weights + h * stride, stride, values, offset + h * dim, out + h * dim, positions, 0);
  };
  together.template operator()<kHeads, 4>();
  together.template operator()<2 * kHeads, 3>();
  together.template operator()<2 * kHeads, 2>();
  for (; h < heads; ++h) {
    const float* w = weights + h * stride;
    const int64_t from = offset + h * dim;
    float* to = out + h * dim;
    int64_t i = 0;
    for (; i + 4 * kLanes <= dim; i += 4 * kLanes) weigh_block<1, 4>(w, stride, values, from + i, to + i, positions, 0);
    for (; i + 2 * kLanes <= dim; i += 2 * kLanes) weigh_block<1, 2>(w, stride, values, from + i, to + i, positions, 0);
    for (; i < dim; i += kLanes) weigh_block<1, 1>(w, stride, values, from + i, to + i, positions, dim - i);
  }
}
