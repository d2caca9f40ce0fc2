// Dot products with selected rows of the output matrix, and the selection of candidates. Part of body.h.

int64_t find_at_least_kernel(const float* x, const float* a, const float* b, float by_a, float by_b, float bar,
                             int64_t n, int32_t* found) {
  const Vec va = set(by_a), vb = set(by_b), limit = set(bar);
  int64_t count = 0;
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t left = n - i;
    const auto at = [=](const float* p) { return left >= kLanes ? load(p + i) : load_part(p + i, left, 0.0f); };
    const Vec top = fma(vb, at(b), fma(va, at(a), at(x)));
    uint32_t mask = bits(less(top, limit)) ^ 0xffffu;
    if (left < kLanes) mask &= (1u << left) - 1u;
    count += store_indices(found + count, mask, static_cast<int32_t>(i));
  }
  return count;
}

int64_t find_in_panels_kernel(const float* x, const float* a, const float* b, float by_a, float by_b, float bar,
                              const int32_t* panel, int64_t panels, int32_t* found) {
  const Vec va = set(by_a), vb = set(by_b), limit = set(bar);
  int64_t count = 0;
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t first = int64_t{panel[p]} * kPanel;
#pragma GCC unroll 4
    for (int64_t i = first; i < first + kPanel; i += kLanes) {
      const Vec top = fma(vb, load(b + i), fma(va, load(a + i), load(x + i)));
      count += store_indices(found + count, bits(less(top, limit)) ^ 0xffffu, static_cast<int32_t>(i));
    }
  }
  return count;
}

// The logits of up to 16 tokens, one to a lane, for kRows vectors: the latency of a chain of fma is the cost, so 16
// chains take no longer than one. Weights are transposed in registers, 4 x 4, once for all vectors; lanes from `count`
// on repeat the first token. `next`: the tokens, `ahead` of them, whose weights are prefetched meanwhile; into the
// second cache, since with those that are read they fill the first. The hardware's prefetcher is too late for them: it
// has to follow each of 16 rows for the length of a row.
template <int kRows>
inline void rows_block(const float* weight, const float* bias, const float* x, const int32_t* token, int64_t count,
                       int64_t dim, float* y, int64_t y_stride, const int32_t* next, int64_t ahead) {
  const float* row[kLanes];
  float column[kLanes];
  for (int c = 0; c < kLanes; ++c) {
    const int64_t t = token[c < count ? c : 0];
    row[c] = weight + t * dim;
    column[c] = bias[t];
  }
  Vec total[kRows];
  for (int r = 0; r < kRows; ++r) total[r] = load(column);
  const float* fetched = ahead > 0 ? weight + int64_t{next[0]} * dim : nullptr;
  int64_t k = 0, line = 0, rows_fetched = 0;
  for (; k + 4 <= dim; k += 4) {
    if (rows_fetched < ahead) {
#pragma GCC unroll 4
      for (int64_t each = 0; each < 4 * kLanes; each += kLanes) __builtin_prefetch(fetched + line + each, 0, 2);
      line += 4 * kLanes;
      if (line >= dim && ++rows_fetched < ahead) line = 0, fetched = weight + int64_t{next[rows_fetched]} * dim;
    }
    Vec part[4];  // lane 4 g + j of part[c] is element k + j of row 4 g + c, and then of row 4 g + j element k + c
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) part[c] = load_fours(row[c] + k, row[4 + c] + k, row[8 + c] + k, row[12 + c] + k);
    transpose_fours(part);
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) total[r] = fma(set(x[r * dim + k + c]), part[c], total[r]);
    }
  }
  for (; k < dim; ++k) {
    for (int c = 0; c < kLanes; ++c) column[c] = row[c][k];
    for (int r = 0; r < kRows; ++r) total[r] = fma(set(x[r * dim + k]), load(column), total[r]);
  }
  for (int r = 0; r < kRows; ++r) store_part(y + r * y_stride, count, total[r]);
}

// Rows in blocks of kMost, then those that are left in one.
template <int kMost>
inline void rows_blocks(const float* weight, const float* bias, const float* x, int64_t rows, const int32_t* token,
                        int64_t count, int64_t dim, float* y, int64_t y_stride, const int32_t* next, int64_t ahead) {
  for (; rows >= kMost; rows -= kMost, x += kMost * dim, y += kMost * y_stride, ahead = 0) {
    rows_block<kMost>(weight, bias, x, token, count, dim, y, y_stride, next, ahead);
  }
  if constexpr (kMost > 1) {
    if (rows > 0) rows_blocks<kMost - 1>(weight, bias, x, rows, token, count, dim, y, y_stride, next, ahead);
  }
}

void gather_dot_kernel(const float* weight, const float* bias, const float* x, int64_t rows, const int32_t* token,
                       int64_t count, int64_t dim, float* y, int64_t y_stride) {
  constexpr int kMost = kBlockRows > 3 ? 8 : 2;  // the registers that hold sums
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t left = count - i, some = left < kLanes ? left : kLanes;
    const int64_t ahead = left - some < kLanes ? left - some : kLanes;
    rows_blocks<kMost>(weight, bias, x, rows, token + i, some, dim, y + i, y_stride, token + i + some, ahead);
  }
}
