// What a transformer needs beside products: norms, activations, and attention of many heads. Part of body.h.

// ---------------------------------------------------------------------------------------------- norm, activations

// `part` of each 16 places of n: whole vectors first, since a mask for each of them takes as long as the rest.
template <typename Part>
inline void for_each(int64_t n, Part part) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    part([=](const float* p, float) { return load(p + i); }, [=](float* p, Vec a) { store(p + i, a); });
  }
  const int64_t left = n - i;
  if (left > 0) {
    part([=](const float* p, float fill) { return load_part(p + i, left, fill); },
         [=](float* p, Vec a) { store_part(p + i, left, a); });
  }
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
  const Vec inverse = set(1.0f / __builtin_sqrtf(sum(squares) / count + epsilon));
  for_each(n, [&](auto at, auto put) {
    put(y, fma(mul(sub(at(x, 0.0f), shift), inverse), at(weight, 0.0f), at(bias, 0.0f)));
  });
}

void add_kernel(float* x, const float* y, int64_t n) {
  for_each(n, [&](auto at, auto put) { put(x, add(at(x, 0.0f), at(y, 0.0f))); });
}

void times_kernel(float* x, const float* y, int64_t n) {
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

// x times the chance that a normal variable is below x: 1 - erfc / 2 above zero, erfc / 2 below, of |x| / sqrt 2, with
// erfc by formula 7.1.26 of Abramowitz and Stegun (1964).
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

void ssru_kernel(const float* input, const float* cell, float* next, float* output, int64_t dim) {
  for_each(dim, [&](auto at, auto put) {
    const Vec x = at(input, 0.0f), keep = sigmoid_vec(at(input + dim, 0.0f));
    const Vec c = fma(keep, sub(at(cell, 0.0f), x), x);
    put(next, c);
    put(output, max(set(0.0f), c));
  });
}

// ---------------------------------------------------------------------------------------------- attention

// Four positions at a time: as many chains hide the latency of fma, and their lanes are added together.
void attend_heads_kernel(const float* query, const float* const* keys, int64_t offset, float* scores, int64_t stride,
                         int64_t positions, int64_t heads, int64_t dim) {
  for (int64_t h = 0; h < heads; ++h, query += dim, offset += dim, scores += stride) {
    for (int64_t p = 0; p < positions; p += 4) {
      const int64_t left = positions - p;
      const float* from[4];
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) from[c] = keys[p + (c < left ? c : left - 1)] + offset;
      Vec total[4] = {set(0.0f), set(0.0f), set(0.0f), set(0.0f)};
      int64_t i = 0;
      for (; i + kLanes <= dim; i += kLanes) {
        const Vec q = load(query + i);
#pragma GCC unroll 4
        for (int c = 0; c < 4; ++c) total[c] = fma(load(from[c] + i), q, total[c]);
      }
      if (i < dim) {
        const Vec q = load_part(query + i, dim - i, 0.0f);
#pragma GCC unroll 4
        for (int c = 0; c < 4; ++c) total[c] = fma(load_part(from[c] + i, dim - i, 0.0f), q, total[c]);
      }
      turn_fours(total);
      const Vec fours = add(add(total[0], total[2]), add(total[1], total[3]));
      float four[4];
      fold_fours(four, fours);
      for (int64_t c = 0; c < 4 && c < left; ++c) scores[p + c] = four[c];
    }
  }
}

// kVecs vectors of one head.
template <int kVecs>
inline void weigh_block(const float* weights, const float* const* values, int64_t offset, float* out, int64_t positions,
                        int64_t left) {
  Vec total[kVecs];
#pragma GCC unroll 4
  for (int c = 0; c < kVecs; ++c) total[c] = set(0.0f);
  for (int64_t p = 0; p < positions; ++p) {
    const Vec w = set(weights[p]);
    const float* from = values[p] + offset;
#pragma GCC unroll 4
    for (int c = 0; c < kVecs; ++c) {
      const Vec v = kVecs > 1 ? load(from + c * kLanes) : load_part(from, left, 0.0f);
      total[c] = fma(w, v, total[c]);
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < kVecs; ++c) {
    if (kVecs > 1) {
      store(out + c * kLanes, total[c]);
    } else {
      store_part(out, left, total[c]);
    }
  }
}

void weigh_heads_kernel(const float* weights, int64_t stride, const float* const* values, int64_t offset, float* out,
                        int64_t positions, int64_t heads, int64_t dim) {
  for (int64_t h = 0; h < heads; ++h, weights += stride, offset += dim, out += dim) {
    int64_t i = 0;
    for (; i + 4 * kLanes <= dim; i += 4 * kLanes) weigh_block<4>(weights, values, offset + i, out + i, positions, 0);
    for (; i < dim; i += kLanes) weigh_block<1>(weights, values, offset + i, out + i, positions, dim - i);
  }
}
