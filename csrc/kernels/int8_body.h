// The kernels of int8 products and of picking and rescoring words. Part of body.h.

// ---------------------------------------------------------------------------------------------- int8 product

// kRows rows by the four vectors of one panel. Sums of even and odd blocks of `in` are kept apart where there are few
// rows, so that enough chains hide the latency.
template <int kRows, int kVecs>
inline void int8_block(const uint8_t* weight, const float* scale, const float* bias, const int8_t* x, int64_t x_stride,
                       const int32_t* start, const float* x_scale, float* y, int64_t y_stride, int64_t blocks,
                       int64_t columns) {
  constexpr int64_t kStep = int64_t{kPanel} * quickbeam::kBytes;
  Ints total[kRows][kVecs];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kVecs; ++c) total[r][c] = set_ints(start[r]);
  }
  for (int64_t k = 0; k < blocks; ++k, weight += kStep) {
#pragma GCC unroll 4
    for (int c = 0; c < kVecs; ++c) {
      const uint8_t* from = weight + c * kLanes * quickbeam::kBytes;
      __builtin_prefetch(from + kAheadBytes);
      const Weights w = load_weights(from);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        total[r][c] = dot(total[r][c], w, load_inputs(x + r * x_stride + k * quickbeam::kBytes));
      }
    }
  }
  // By way of memory: scaling the sums where they are makes the compiler spill them in the loop above.
  float sums[kRows][kVecs * kLanes];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kVecs; ++c) store(sums[r] + c * kLanes, to_floats(total[r][c]));
  }
  for (int r = 0; r < kRows; ++r) {
    for (int64_t at = 0; at < kVecs * kLanes && at < columns; at += kLanes) {
      const int64_t left = columns - at;
      const Vec sized = mul(load_part(scale + at, left, 0.0f), load(sums[r] + at));
      const Vec start_at = load_part(bias + at, left, 0.0f);
      store_part(y + r * y_stride + at, left, add(start_at, mul(set(x_scale[r]), sized)));
    }
  }
}

// One panel for kRows rows or fewer.
template <int kRows>
inline void int8_rows(const uint8_t* weight, const float* scale, const float* bias, const int8_t* x, int64_t x_stride,
                      const int32_t* start, const float* x_scale, float* y, int64_t y_stride, int64_t rows,
                      int64_t blocks, int64_t columns) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      int8_rows<kRows - 1>(weight, scale, bias, x, x_stride, start, x_scale, y, y_stride, rows, blocks, columns);
      return;
    }
  }
  for (int c = 0; c < kPanel && c < columns; c += kBlockVecs * kLanes) {
    int8_block<kRows, kBlockVecs>(weight + c * quickbeam::kBytes, scale + c, bias + c, x, x_stride, start, x_scale,
                                  y + c, y_stride, blocks, columns - c);
  }
}

// 128 was added to each weight: what that adds to every sum of the row.
inline int32_t start_of(const int8_t* x, int64_t n) {
  int32_t total = 0;
  for (int64_t k = 0; k < n; ++k) total += x[k];
  return -128 * total;
}

void multiply_int8_kernel(const uint8_t* packed, const float* scale, const float* bias, const int8_t* x,
                          int64_t x_stride, const float* x_scale, float* y, int64_t y_stride, int64_t rows, int64_t in,
                          int64_t out) {
  constexpr int64_t kMostRows = 48;  // whose starts are kept at a time
  const int64_t bytes = quickbeam::padded_bytes(in);
  int32_t start[kMostRows];
  for (int64_t from = 0; from < rows; from += kMostRows) {
    const int64_t count = rows - from < kMostRows ? rows - from : kMostRows;
    const int64_t blocks = (count + kBlockRows - 1) / kBlockRows;
    for (int64_t r = 0; r < count; ++r) start[r] = start_of(x + (from + r) * x_stride, in);
    for (int64_t n = 0; n < out; n += kPanel) {
      for (int64_t block = 0; block < blocks; ++block) {  // of nearly equal size
        const int64_t first = block * count / blocks, some = (block + 1) * count / blocks - first;
        int8_rows<kBlockRows>(packed + n * bytes, scale + n, bias + n, x + (from + first) * x_stride, x_stride,
                              start + first, x_scale + from + first, y + (from + first) * y_stride + n, y_stride, some,
                              bytes / quickbeam::kBytes, out - n);
      }
    }
  }
}

float quantize_kernel(const float* x, int64_t n, int8_t* q) {
  Vec top = set(0.0f);
  for (int64_t i = 0; i < n; i += kLanes) top = max(abs(load_part(x + i, n - i, 0.0f)), top);
  const float most = highest(top);
  const Vec by = set(most > 0.0f ? 127.0f / most : 0.0f);
  const Vec low = set(-127.0f), high = set(127.0f);
  for (int64_t i = 0; i < n; i += kLanes) {
    // 127 / most may be infinite, and 0 times it a NaN: low, as the second, is what max then gives.
    const Vec sized = max(mul(load_part(x + i, n - i, 0.0f), by), low);
    store_bytes(q + i, n - i, add(select(less(high, sized), high, sized), set(kRound)));
  }
  return most / 127.0f;
}

void dot_rows_kernel(const uint8_t* rows, int64_t stride, const int8_t* x, const int32_t* words, int64_t count,
                     int32_t* sums) {
  constexpr int64_t kAheadRows = 8;  // the rows lie anywhere: ask for them early
  const int32_t start = start_of(x, stride);
  for (int64_t i = 0; i < count; ++i) {
    if (i + kAheadRows < count) {
      const uint8_t* ahead = rows + words[i + kAheadRows] * stride;
      for (int64_t k = 0; k < stride; k += quickbeam::kRowBytes) __builtin_prefetch(ahead + k);
    }
    const uint8_t* row = rows + words[i] * stride;
    Ints total = set_ints(0);
    for (int64_t k = 0; k < stride; k += quickbeam::kRowBytes) total = dot_bytes(total, row + k, x + k);
    sums[i] = start + sum_ints(total);
  }
}

// ---------------------------------------------------------------------------------------------- picking words

int64_t reaching_kernel(const float* x, const float* a, const float* b, float by_a, float by_b, float bar, int64_t n,
                        int32_t* found) {
  const Vec va = set(by_a), vb = set(by_b), limit = set(bar);
  int64_t count = 0;
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t left = n - i;
    const auto at = [=](const float* p) { return left >= kLanes ? load(p + i) : load_part(p + i, left, 0.0f); };
    const Vec top = fma(vb, at(b), fma(va, at(a), at(x)));
    uint32_t mask = bits(less(top, limit)) ^ 0xffffu;
    if (left < kLanes) mask &= (1u << left) - 1u;
    count += store_found(found + count, mask, static_cast<int32_t>(i));
  }
  return count;
}

// The logits of up to 16 words, one to a lane: a lane's chain of fma is what takes the time, so that 16 words take no
// longer than one. The weights are turned in registers, four by four; lanes from `count` on have the first word again.
inline void rows_block(const float* weight, const float* bias, const float* x, const int32_t* words, int64_t count,
                       int64_t dim, float* y) {
  const float* row[kLanes];
  float column[kLanes];
  for (int c = 0; c < kLanes; ++c) {
    const int64_t word = words[c < count ? c : 0];
    row[c] = weight + word * dim;
    column[c] = bias[word];
  }
  Vec total = load(column);
  int64_t k = 0;
  for (; k + 4 <= dim; k += 4) {
    Vec part[4];  // lane 4 g + j of part[c] is element k + j of row 4 g + c, and then of row 4 g + j element k + c
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) part[c] = load_fours(row[c] + k, row[4 + c] + k, row[8 + c] + k, row[12 + c] + k);
    turn_fours(part);
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) total = fma(set(x[k + c]), part[c], total);
  }
  for (; k < dim; ++k) {
    for (int c = 0; c < kLanes; ++c) column[c] = row[c][k];
    total = fma(set(x[k]), load(column), total);
  }
  store_part(y, count, total);
}

void multiply_rows_kernel(const float* weight, const float* bias, const float* x, const int32_t* words, int64_t count,
                          int64_t dim, float* y) {
  for (int64_t i = 0; i < count; i += kLanes) {
    rows_block(weight, bias, x, words + i, count - i < kLanes ? count - i : kLanes, dim, y + i);
  }
}
