// The kernels, written once over 16-lane vectors. Included by each instruction set's file inside its anonymous
// namespace, after that file has defined:
//
//   Vec, Mask         16 floats, 16 truth values
//   load, store       16 floats; load_part, store_part: the first n (which may be < 0 or > 16), the others `fill`
//   set               the same float in every lane
//   add, sub, mul, div, fma(a, b, c) = a * b + c, abs, copysign(size, sign)
//   max(a, b)         a > b ? a : b, so b where either is NaN
//   less, select, bits
//   store_indices(to, mask, first)   first + i for each bit i of a mask, ascending; returns how many. Writes up to 16
//   power_of_two(t)   2^n for t = kRound + n
//   store_int8, store_int16   the low 8 or 16 bits of each of the first n lanes
//   load_fours        4 floats from each of four addresses
//   transpose_fours(a[4])   four transposed 4 x 4 blocks: lane 4 g + j of a[c] and lane 4 g + c of a[j] are swapped
//   add_fours(p, a)   p[j] = (lane j + lane j + 8) + (lane j + 4 + lane j + 12), j < 4
//   sum, max_lane     over the lanes, (i, i + 8), then (i, i + 4), (i, i + 2), (i, i + 1)
//   Doubles           16 doubles: set_double, widen and narrow from and to floats, load_doubles (all, or the first n
//                     and zeros), store_doubles, add, sub, mul, div, fma, clamp(x, limit) to [-limit, limit] (NaN
//                     stays NaN), power_of_eighths(t) = 2^(n / 8) for t = kRoundDouble + n, sum
//   Ints              16 integers of 32 bits: set_ints, store_ints, to_floats, sum_ints
//   Int8, Int16       the dot products of an integer gemm. Weights: 64 bytes of a packed panel; Inputs: 4 bytes of a
//                     row in every lane; load_weights, load_inputs; dot(total, w, x) = total + the dot product of each
//                     lane's 4 bytes (4 int8 or 2 int16); kRows, the most rows of a register block; vecs(rows), its
//                     width in registers; kUnsignedWeights, whether dot reads the packed int8 weights as they are
//                     stored (w + 128) or as w; if so, add_inputs(total, x) = total + 64 inputs, 4 to a lane. A unit
//                     may also have prepare(x, n, to), which writes the n numbers of a row to 2 n bytes, 8 for each
//                     group, that load_inputs then reads, and returns what sums start from
//   load_words        16 unsigned numbers of 16 bits, as floats
//   Codes             look-ups of 4-bit codes: kRows, the most rows of a block; kByToken, how codes are laid out; if
//   false:
//                     Bytes, a register of kBytes bytes; load, zero; low and high, the nibbles of each byte;
//                     look_up(table, codes) in 16 bytes; add_bytes; add_words, of 16 bits; add_upper(total, x) = total
//                     + the upper byte of each 16 bits of x; store 16-bit numbers, store_even(to, total, odd) total -
//                     256 odd; if true: sums_of_panel, as code_sums_of_panel
//   kBlockRows, kBlockVecs, kRowVecs   shape of the register blocks of a float gemm
//
// The order of operations must not depend on the registers, and the build forbids the compiler to fuse or reorder
// floating-point operations, so all tables return the same bits (a NaN is a NaN, its payload may differ).

using sharpbeam::Kernels;
using sharpbeam::kLanes;
using sharpbeam::kPanel;

constexpr float kInfinity = __builtin_inff();
constexpr int64_t kLine = 64;          // bytes of a line of the caches
constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits
constexpr float kExpLow = -87.3f;      // below it exp(x) is subnormal, and flushed to zero

// exp(x) = scale + scale * rest, for kExpLow <= x <= 0.
struct Exp {
  Vec scale;  // 2^n, n = x / ln 2 rounded
  Vec rest;   // expm1(x - n ln 2)
};

inline Exp split_exp(Vec x) {
  const Vec t = fma(x, set(0x1.715476p+0f), set(kRound));  // 1 / ln 2
  const Vec n = sub(t, set(kRound));
  Vec r = fma(n, set(-0x1.62e4p-1f), x);  // ln 2 in two parts: n times the first is exact
  r = fma(n, set(-0x1.7f7d1cp-20f), r);
  // (expm1(r) - r) / r^2, minimax on |r| <= ln 2 / 2: relative error of expm1 below 2^-26.
  Vec q = fma(set(0x1.6bebfep-10f), r, set(0x1.1227bp-7f));
  q = fma(q, r, set(0x1.555674p-5f));
  q = fma(q, r, set(0x1.5554bp-3f));
  q = fma(q, r, set(0x1.fffffep-2f));
  return {power_of_two(t), fma(mul(r, r), q, r)};
}

// exp(x) for x <= 0; 0 below kExpLow; NaN stays NaN.
inline Vec exp_nonpositive(Vec x) {
  const Exp e = split_exp(max(set(kExpLow), x));
  return select(less(x, set(kExpLow)), set(0.0f), fma(e.scale, e.rest, e.scale));
}

// total + exp(x) for x <= 0, to a relative error of exp(x) below 2^-21; 0 for exp(x) where 2^n, n = x / ln 2 rounded,
// is no normal number; NaN stays NaN. Takes two thirds of the operations of exp_nonpositive.
inline Vec add_exp(Vec total, Vec x) {
  x = max(set(-88.0f), x);  // n is -127, for which power_of_two is 0
  const Vec t = fma(x, set(0x1.715476p+0f), set(kRound));
  const Vec f = fma(x, set(0x1.715476p+0f), sub(set(kRound), t));
  // 2^f, minimax on |f| <= 1 / 2, and 1 at 0.
  Vec q = fma(set(0x1.5c08e6p-10f), f, set(0x1.3d0c52p-7f));
  q = fma(q, f, set(0x1.c6b6e4p-5f));
  q = fma(q, f, set(0x1.ebf918p-3f));
  q = fma(q, f, set(0x1.62e428p-1f));
  return fma(power_of_two(t), fma(q, f, set(1.0f)), total);
}

// 1 / (1 + exp(-x)), by exp(-|x|) so that nothing overflows.
inline Vec sigmoid_vec(Vec x) {
  const Vec e = exp_nonpositive(sub(set(0.0f), abs(x)));
  return div(select(less(x, set(0.0f)), e, set(1.0f)), add(set(1.0f), e));
}

// Calls part(at, put) for each vector of n elements: whole ones first, because masking each takes as long as the rest.
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

#include "kernels/body/recurrent_body.h"

// ---------------------------------------------------------------------------------------------- attention

// The scores of kCount positions at once: independent chains hide the latency of fma.
template <int kCount>
inline void dot_block(const float* query, const float* keys, float* scores, int64_t dim) {
  Vec total[kCount];
#pragma GCC unroll 4
  for (int c = 0; c < kCount; ++c) total[c] = set(0.0f);
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) {
    const Vec q = load(query + i);
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) total[c] = fma(load(keys + c * dim + i), q, total[c]);
  }
  if (i < dim) {
    const int64_t left = dim - i;
    const Vec q = load_part(query + i, left, 0.0f);
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) total[c] = fma(load_part(keys + c * dim + i, left, 0.0f), q, total[c]);
  }
#pragma GCC unroll 4
  for (int c = 0; c < kCount; ++c) scores[c] = sum(total[c]);
}

void dot_scores_kernel(const float* query, const float* keys, float* scores, int64_t positions, int64_t dim) {
  int64_t s = 0;
  for (; s + 4 <= positions; s += 4) dot_block<4>(query, keys + s * dim, scores + s, dim);
  for (; s < positions; ++s) dot_block<1>(query, keys + s * dim, scores + s, dim);
}

#include "kernels/body/softmax_body.h"

// ---------------------------------------------------------------------------------------------- top k

#include "kernels/body/top_k_body.h"

// ---------------------------------------------------------------------------------------------- gemm

// A block as wide as a panel reads it sequentially, which the hardware prefetches. A narrower block reads a part of
// each line of a panel (256 bytes, of BFloat16 128), which it does not: so whole lines are prefetched some lines ahead.
template <typename Number>
inline void prefetch_panel(const Number* step) {
  constexpr int64_t kAhead = 4096, kStep = kPanel * sizeof(Number);
#pragma GCC unroll 4
  for (int64_t line = 0; line < kStep; line += kLine)
    __builtin_prefetch(reinterpret_cast<const char*>(step) + kAhead + line);
}

// With three rows or more the processor is bound by arithmetic and its prefetcher runs only a few lines ahead, so that
// reading and arithmetic alternate. Prefetching the following panels into L2, and the next matrix, which is mostly the
// next one in memory, lets them overlap. With one or two rows the hardware prefetches far enough, and this only costs.
template <int kLines>
inline void prefetch_lines(const uint8_t* from) {
#pragma GCC unroll 4
  for (int line = 0; line < kLines; ++line) __builtin_prefetch(from + line * kLine, 0, 2);
}

// How many bytes ahead to prefetch: none where the last-level cache cannot keep the weights from one step to the next,
// for then memory bandwidth is the limit, and the hardware prefetcher reaches it, but not for blocks that are narrow.
inline int64_t ahead_of(int64_t bytes, bool narrow) {
  constexpr int64_t kCacheBytes = int64_t{16} << 20, kAhead = 49152;
  return narrow || bytes <= kCacheBytes ? kAhead : 0;
}

// A register block of kRows rows by kVecs vectors of columns. `weight` points at the first column in a panel (vectors
// after the fourth are in the next panel); `columns` is how many columns exist from there.
template <int kRows, int kVecs, typename Number>
inline void gemm_block(const Number* weight, const float* bias, const float* x, int64_t x_stride, float* y,
                       int64_t y_stride, int64_t in, int64_t columns) {
  constexpr int kPanelVecs = kPanel / kLanes;
  Vec total[kRows][kVecs];
#pragma GCC unroll 8
  for (int c = 0; c < kVecs; ++c) {
    const Vec start = bias ? load_part(bias + c * kLanes, columns - c * kLanes, 0.0f) : set(0.0f);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) total[r][c] = start;
  }
  const Number* next = weight + in * kPanel;
  for (int64_t k = 0; k < in; ++k, weight += kPanel, next += kPanel) {
    if constexpr (kVecs < kPanelVecs) prefetch_panel(weight);
#pragma GCC unroll 8
    for (int c = 0; c < kVecs; ++c) {
      const Number* from = c < kPanelVecs ? weight + c * kLanes : next + (c - kPanelVecs) * kLanes;
      const Vec w = load(from);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) total[r][c] = fma(set(x[r * x_stride + k]), w, total[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kVecs; ++c) {
      const int64_t left = columns - c * kLanes;
      if (left >= kLanes) {
        store(y + r * y_stride + c * kLanes, total[r][c]);
      } else if (left > 0) {
        store_part(y + r * y_stride + c * kLanes, left, total[r][c]);
      }
    }
  }
}

// A block of at most kVecs vectors; those that are all beyond the last column are not computed.
template <int kRows, int kVecs, typename Number>
inline void gemm_columns(const Number* weight, const float* bias, const float* x, int64_t x_stride, float* y,
                         int64_t y_stride, int64_t in, int64_t columns) {
  if constexpr (kVecs > 1) {
    if (columns <= (kVecs - 1) * kLanes)
      return gemm_columns<kRows, kVecs - 1>(weight, bias, x, x_stride, y, y_stride, in, columns);
  }
  gemm_block<kRows, kVecs>(weight, bias, x, x_stride, y, y_stride, in, columns);
}

// One panel for at most kRows rows.
template <int kRows, typename Number>
inline void gemm_rows(const Number* weight, const float* bias, const float* x, int64_t x_stride, float* y,
                      int64_t y_stride, int64_t rows, int64_t in, int64_t columns) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      gemm_rows<kRows - 1>(weight, bias, x, x_stride, y, y_stride, rows, in, columns);
      return;
    }
  }
  constexpr int kWidth = kBlockVecs * kLanes;
  for (int c = 0; c < kPanel && c < columns; c += kWidth)
    gemm_columns<kRows, kBlockVecs>(weight + c, bias ? bias + c : nullptr, x, x_stride, y + c, y_stride, in,
                                    columns - c);
}

template <typename Number>
void gemm_kernel(const Number* packed, const float* bias, const float* x, int64_t x_stride, float* y, int64_t y_stride,
                 int64_t rows, int64_t in, int64_t out) {
  if (rows == 1) {
    for (int64_t n = 0; n < out; n += kRowVecs * kLanes)
      gemm_columns<1, kRowVecs>(packed + n * in, bias ? bias + n : nullptr, x, 0, y + n, 0, in, out - n);
    return;
  }
  const int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  for (int64_t n = 0; n < out; n += kPanel) {
    const Number* weight = packed + n * in;
    const float* b = bias ? bias + n : nullptr;
    for (int64_t block = 0; block < blocks; ++block) {  // balanced: 7 rows are 4 + 3
      const int64_t first = block * rows / blocks, count = (block + 1) * rows / blocks - first;
      gemm_rows<kBlockRows>(weight, b, x + first * x_stride, x_stride, y + first * y_stride + n, y_stride, count, in,
                            out - n);
    }
  }
}

#include "kernels/body/code_sums_body.h"
#include "kernels/body/quantized_body.h"
#include "kernels/body/selected_rows_body.h"
#include "kernels/body/transformer_body.h"

#include "kernels/body/peak_body.h"  // uses those above

constexpr Kernels make_table(const char* name) {
  return {
      .name = name,
      .codes_by_token = Codes::kByToken,
      .gemm = gemm_kernel<float>,
      .gemm_bfloat16 = gemm_kernel<sharpbeam::BFloat16>,
      .tanh = tanh_kernel,
      .gru = gru_kernel,
      .lstm = lstm_kernel,
      .mlp_keys = mlp_keys_kernel,
      .mlp_scores = mlp_scores_kernel,
      .dot_scores = dot_scores_kernel,
      .softmax = softmax_kernel,
      .multihead_scores = multihead_scores_kernel,
      .multihead_context = multihead_context_kernel,
      .add_norm = add_norm_kernel,
      .add_rms_norm = add_rms_norm_kernel,
      .add = add_kernel,
      .mul = mul_kernel,
      .relu = relu_kernel,
      .swish = swish_kernel,
      .gelu = gelu_kernel,
      .gelu_tanh = gelu_tanh_kernel,
      .ssru = ssru_kernel,
      .gemm_int8 = gemm_int8_kernel,
      .quantize_int8 = quantize_int8_kernel,
      .quantize_weights = quantize_weights_kernel,
      .gemm_int16 = gemm_int16_kernel,
      .quantize_int16 = quantize_int16_kernel,
      .find_at_least = find_at_least_kernel,
      .find_in_panels = find_in_panels_kernel,
      .gather_dot = gather_dot_kernel,
      .log_sum_exp = log_sum_exp_kernel,
      .log_sum_exp_below = log_sum_exp_below_kernel,
      .panel_maxima = panel_maxima_kernel,
      .sum_exp_in_panels = sum_exp_in_panels_kernel,
      .top_k = top_k_kernel,
      .code_tables = code_tables_kernel,
      .preview_codes = preview_codes_kernel,
      .peak_float32 = peak_float32_kernel,
      .peak_int16 = peak_int16_kernel,
      .peak_int8 = peak_int8_kernel,
  };
}
