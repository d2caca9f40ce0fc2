// C = A B^T + bias on one core, in float32, int16 and int8, and the other kernels that models and output layers need.
// There is one table of kernels for each instruction set; it is chosen once at load (dispatch.cpp).
//
// Every table returns the same bits as the scalar one, for floats too, because no kernel lets the instruction set
// choose the order of a sum:
//   * an element of a gemm is one chain of fused multiply-adds over k = 0, 1, ..., K - 1, starting at the bias;
//   * a reduction over a vector runs in kLanes = 16 lanes (lane i takes the elements i, i + 16, ...), which are then
//     added pairwise in a fixed order: i with i + 8, then i + 4, i + 2, i + 1;
//   * tanh, sigmoid and exp are polynomials with a fixed order of operations, and no compiler may fuse or reorder them
//     (-ffp-contract=off).
// So a row's answer depends on that row alone: not on the batch around it, the number of threads, or the machine.
//
// The gemms read A row by row, unpacked, and B (the weights, [N, K] row-major) packed into panels, once at load:
//
//   panel p holds the columns 64 p .. 64 p + 63 of the output, one group of `in` (= K) after the other
//
//              column 0        column 1            column 63
//            +---------------+---------------+---+---------------+
//   group 0  | k = 0 .. G-1  | k = 0 .. G-1  |...| k = 0 .. G-1  |   one line of the packed panel: 64 G numbers,
//            +---------------+---------------+---+---------------+   read from left to right, top to bottom
//   group 1  | k = G .. 2G-1 | k = G .. 2G-1 |...| k = G .. 2G-1 |
//            +---------------+---------------+---+---------------+
//     ...      K and N are padded with zeros to whole groups and panels
//
//   float32: G = 1, so a line is B^T[k][64 p .. 64 p + 63], 256 bytes = four AVX-512 registers
//   int16:   G = 2 (vpdpwssd and vpmaddwd multiply pairs)
//   int8:    G = 4 (vpdpbusd, sdot), each weight w stored as the unsigned byte w + 128
//
// So the innermost loop loads one register of weights (16 columns of one group), one group of A broadcast to all lanes,
// and adds 16 dot products of length G to 16 accumulators. A panel is read sequentially, which hardware prefetches.
//
// int8 quantization: a row of weights w is stored as round(w / s_w) with s_w = max |w| / 127, a row of A as
// round(x / s_x) with s_x = max |x| / 127 when it is used; both lie in [-127, 127]. Sums are exact 32-bit integers as
// long as 255 * 127 * K < 2^31 (the stored w + 128 is at most 255), which is kMaxInt8Depth. Then
// C = bias + s_x * (s_w * float(sum)), with one rounding for each of the three float operations. The 128 that was added
// to the weights adds 128 * sum of A's row to a sum, which is the value that accumulators start from, negated.
// Tables that multiply signed bytes (AVX2, NEON with and without dot products) undo the 128 by an exclusive or instead.
//
// No alignment is required of the arguments; packed weights that start on a cache line (core/buffer.h) are faster.
#pragma once

#include <bit>
#include <cstdint>

namespace sharpbeam {

constexpr int kLanes = 16;  // lanes of every reduction, whatever the width of a register
constexpr int kPanel = 64;  // output columns that are packed next to each other

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Numbers in a packed [out, in] matrix; `in` counts the padding to whole groups, where there is any.
constexpr int64_t panels_of(int64_t columns) { return (columns + kPanel - 1) / kPanel; }
constexpr int64_t packed_size(int64_t in, int64_t out) { return round_up(out, kPanel) * in; }

constexpr int kInt8Group = 4;   // neighbors along K that an int8 gemm multiplies at a time
constexpr int kInt16Group = 2;  // the same of an int16 gemm
constexpr int64_t padded_int8(int64_t in) { return round_up(in, kInt8Group); }
constexpr int64_t padded_int16(int64_t in) { return round_up(in, kInt16Group); }

constexpr int64_t kMaxInt8Depth = 65536;  // largest K of an int8 gemm: 255 * 127 * K fits 32 bits
constexpr int kCodeWords = 16;            // entries of a table of preview_codes, one for each 4-bit code
constexpr int64_t kCodeGroup = 8;         // codes whose entries add up to at most 255
constexpr float kCodeRange = 251.0f;      // of a group in steps: each of its entries may be rounded up by half of one
constexpr int64_t kMaxCodes = 2048;       // of a token: 258 groups would not fit 16 bits
constexpr int kMaxInt16Input = 4095;      // inputs of an int16 gemm lie in [-4095, 4095]; weights use the other bits

// The upper half of a float, rounded to the nearest, ties to even; a NaN stays one.
struct BFloat16 {
  BFloat16() = default;
  BFloat16(float x) {
    const auto all = std::bit_cast<uint32_t>(x);
    bits = static_cast<uint16_t>(x != x ? all >> 16 | 64 : (all + 0x7fff + (all >> 16 & 1)) >> 16);
  }
  uint16_t bits;
};

struct Kernels {
  const char* name;
  // Whether `preview_codes` reads codes token by token, instead of code by code (body/code_sums_body.h).
  bool codes_by_token;

  // ---- gemm, float32: y[r][n] = bias[n] + sum over k of x[r][k] * w[n][k], for r < rows, n < out, k < in.
  // Rows of x and y are x_stride and y_stride floats apart; y must not overlap x. `bias` [out] or null (zeros).
  void (*gemm)(const float* packed, const float* bias, const float* x, int64_t x_stride, float* y, int64_t y_stride,
               int64_t rows, int64_t in, int64_t out);
  // The same with weights that take half as much memory.
  void (*gemm_bfloat16)(const BFloat16* packed, const float* bias, const float* x, int64_t x_stride, float* y,
                        int64_t y_stride, int64_t rows, int64_t in, int64_t out);

  // ---- recurrent cells and their attention. All are computed in double and rounded once, so each result is the float
  // nearest to that of its arguments: within 0.501 units in the last place, and not the nearest for at most one value
  // in 10,000. The arguments of a cell's gates are sums rounded to float. NaN stays NaN.

  // Element-wise, in place.
  void (*tanh)(float* x, int64_t n);

  // One row of a GRU, gates in the order r, z, n: r, z = sigmoid(input + hidden), n = tanh(input + r * hidden),
  // next = n + z * (state - n). `input` and `hidden` are [3 * dim]; `next` may be `state`.
  void (*gru)(const float* input, const float* hidden, const float* state, float* next, int64_t dim);

  // One row of an LSTM, gates in the order i, f, g, o: i, f, o = sigmoid(input + hidden), g = tanh(input + hidden),
  // next = f * cell + i * g, output = o * tanh(next). `input` and `hidden` are [4 * dim]; `next` may be `cell`.
  void (*lstm)(const float* input, const float* hidden, const float* cell, float* next, float* output, int64_t dim);

  // Prepares n elements of keys or queries for mlp_scores of the same table. Values beyond +-44 count as +-44.
  void (*mlp_keys)(const float* x, double* keys, int64_t n);
  // Additive (MLP) attention: scores[s] = sum over a of weight[a] * tanh(keys[s][a] + query[a])   (CUBE eq. 4)
  void (*mlp_scores)(const double* query, const double* keys, const double* weight, float* scores, int64_t positions,
                     int64_t dim);
  // Dot-product attention: scores[s] = sum over a of keys[s][a] * query[a], in float32.
  void (*dot_scores)(const float* query, const float* keys, float* scores, int64_t positions, int64_t dim);

  // Softmax of each row of x [rows, n], in place; a score below its row's maximum - 87.3 becomes 0. A row with a NaN
  // or +inf, or of -inf alone, becomes NaN.
  void (*softmax)(float* x, int64_t rows, int64_t n);

  // ---- transformer

  // Multi-head attention of one query over `positions` keys: scores[h * stride + p] = the dot product of head h, `dim`
  // numbers wide, of query [heads * dim] and keys[p] + offset [heads * dim]. A dot product runs in 16 lanes; those of
  // each four lanes 4 g .. 4 g + 3 are added as (0 + 2) + (1 + 3), then the four sums likewise.
  void (*multihead_scores)(const float* query, const float* const* keys, int64_t offset, float* scores, int64_t stride,
                           int64_t positions, int64_t heads, int64_t dim);
  // out[h * dim + i] = sum over p of weights[h * stride + p] * values[p][offset + h * dim + i], one chain over p.
  void (*multihead_context)(const float* weights, int64_t stride, const float* const* values, int64_t offset,
                            float* out, int64_t positions, int64_t heads, int64_t dim);
  // Residual connection and layer norm: x += added (unless null), then y = (x - mean) / sqrt(variance + epsilon) *
  // weight + bias, all [n]; y may be x.
  void (*add_norm)(float* x, const float* added, const float* weight, const float* bias, float epsilon, float* y,
                   int64_t n);
  // The same with an RMS norm (Zhang & Sennrich 2019): y = x / sqrt(mean of x^2 + epsilon) * weight.
  void (*add_rms_norm)(float* x, const float* added, const float* weight, float epsilon, float* y, int64_t n);
  // Element-wise and in place, all [n]: x + y; x * y; max(x, 0); x * sigmoid(slope * x); x * Phi(x), where Phi is the
  // distribution function of the normal distribution, within 2e-7 |x|; and x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 *
  // x^3))) / 2, which is close to it.
  void (*add)(float* x, const float* y, int64_t n);
  void (*mul)(float* x, const float* y, int64_t n);
  void (*relu)(float* x, int64_t n);
  void (*swish)(float* x, float slope, int64_t n);
  void (*gelu)(float* x, int64_t n);
  void (*gelu_tanh)(float* x, int64_t n);
  // One row of a simpler simple recurrent unit (SSRU): next = x + sigmoid(f) * (cell - x), output = max(next, 0);
  // `input` is [x, f], 2 * dim; `next` may be `cell`.
  void (*ssru)(const float* input, const float* cell, float* next, float* output, int64_t dim);

  // ---- int8 and int16

  // y[r][n] = bias[n] + x_scale[r] * (scale[n] * float(sum over k of x[r][k] * w[n][k])), for r < rows, n < out.
  // x is [rows, x_stride], each number in [-127, 127], zero from `in` to the next multiple of kInt8Group. Sums are
  // exact, and each of the three float operations is rounded.
  void (*gemm_int8)(const uint8_t* packed, const float* scale, const float* bias, const int8_t* x, int64_t x_stride,
                    const float* x_scale, float* y, int64_t y_stride, int64_t rows, int64_t in, int64_t out);
  // Quantizes x [n] to q [n] in [-127, 127]; returns the scale, max |x| / 127 (0 where all are zero). x with a NaN or
  // an infinity has no defined result, but the call returns.
  float (*quantize_int8)(const float* x, int64_t n, int8_t* q);
  // Quantizes weights: q = round(w / scale) + 128, with round(w / scale) in [-127, 127] (0 where scale is 0). Returns
  // the squared Euclidean norm of the quantization error. A w with a NaN, an infinity or a size above 127 * scale has
  // no defined result, but the call returns.
  double (*quantize_weights)(const double* w, int64_t n, float scale, uint8_t* q);

  // As gemm_int8 for 16-bit numbers, in groups of kInt16Group. x is in [-kMaxInt16Input, kMaxInt16Input]; the packed
  // weights must be scaled so that no sum exceeds 32 bits (Int16Matrix).
  void (*gemm_int16)(const int16_t* packed, const float* scale, const float* bias, const int16_t* x, int64_t x_stride,
                     const float* x_scale, float* y, int64_t y_stride, int64_t rows, int64_t in, int64_t out);
  // As quantize_int8, to [-kMaxInt16Input, kMaxInt16Input].
  float (*quantize_int16)(const float* x, int64_t n, int16_t* q);

  // ---- selected rows of the output matrix

  // The indices i with not (x[i] + by_a * a[i] + by_b * b[i] < bar), ascending, into `found` (of size n + kLanes or
  // more); returns how many there are. A NaN is found.
  int64_t (*find_at_least)(const float* x, const float* a, const float* b, float by_a, float by_b, float bar, int64_t n,
                           int32_t* found);
  // The same of the elements of `panels` panels of kPanel, panel[0] first: x[kPanel * panel[0]] and so on.
  int64_t (*find_in_panels)(const float* x, const float* a, const float* b, float by_a, float by_b, float bar,
                            const int32_t* panel, int64_t panels, int32_t* found);
  // y[r][i] = bias[t] + sum over k of x[r][k] * weight[t][k], t = token[i], from a row-major `weight` [.., dim] and `x`
  // [rows, dim]: the bits of `gemm`.
  void (*gather_dot)(const float* weight, const float* bias, const float* x, int64_t rows, const int32_t* token,
                     int64_t count, int64_t dim, float* y, int64_t y_stride);

  // ---- ranking

  // log(sum(exp(x))), in 16 lanes, within 1e-6 relative (absolute where it is below 1). -inf where all are -inf; NaN
  // where there is a NaN or +inf.
  float (*log_sum_exp)(const float* x, int64_t n);
  // The same, where the largest of x is known: `top`. The bits of log_sum_exp.
  float (*log_sum_exp_below)(const float* x, float top, int64_t n);
  // top[p] = the largest of the kPanel numbers of panel p of x [panels * kPanel]; a NaN does not count.
  void (*panel_maxima)(const float* x, int64_t panels, float* top);
  // sum(exp(x - top)) of the elements of `panels` panels of kPanel, in 16 lanes; none is above `top`.
  float (*sum_exp_in_panels)(const float* x, float top, const int32_t* panel, int64_t panels);
  // The k largest of x [n], largest first, equal values by lower index. A NaN counts as -inf, and is returned as -inf.
  // Needs 1 <= k <= n.
  void (*top_k)(const float* x, int64_t n, int64_t k, float* values, int32_t* indices);

  // The tables of a row of coordinates g for preview_codes: entry i of code c is the sum of g[k] * words[k][i] over its
  // lengths[c] coordinates k, one chain of fused multiply-adds; `words` has kCodeWords floats for each coordinate of
  // all codes, one after the other. A table begins at its least entry, and is rounded to bytes with one step for all,
  // the range of the widest group over kCodeRange: entry = least + step * byte, about. `base` gets the sum of the least
  // entries. All of `tables` [codes, kCodeWords] is written; g is finite. At most kMaxCodes codes.
  void (*code_tables)(const float* g, const float* words, const int32_t* lengths, int64_t codes, uint8_t* tables,
                      float* step, double* base);
  // Preview of `panels` panels of kPanel tokens from their 4-bit codes: y[r][n] = bias[n] + scale[n] * (base[r] +
  // step[r] * float(sum over c < kCodeGroup * groups of tables[r][c][code c of token n])), and top[r][p] = the largest
  // y of panel p (a NaN does not count). `codes` is laid out as body/code_sums_body.h says; a row's tables are
  // kCodeWords bytes for each code, `table_stride` bytes apart, and the largest entries of a group add up to at most
  // 255; at most kMaxCodes codes. Sums are exact, then two fused multiply-adds.
  void (*preview_codes)(const uint8_t* codes, const float* scale, const float* bias, const uint8_t* tables,
                        int64_t table_stride, const float* step, const float* base, float* y, int64_t y_stride,
                        float* top, int64_t top_stride, int64_t rows, int64_t groups, int64_t panels);

  // ---- the peak, for `profile`: `steps` steps of a plain loop of a gemm's instructions, on operands that stay in the
  // first cache. Returns the number of its multiply-adds.
  int64_t (*peak_float32)(int64_t steps);
  int64_t (*peak_int16)(int64_t steps);
  int64_t (*peak_int8)(int64_t steps);
};

// The table in use: the best that this machine can run, or a lower one named by the environment variable SHARPBEAM_ISA
// (scalar; avx2, avx512, avxvnni, avx512vnni, avx512vbmi; neon, neondot, neoni8mm). Throws std::invalid_argument for
// another name, or a table that this machine cannot run.
const Kernels& kernels();
// The table `name`, for tests; throws std::invalid_argument with the names that this machine can run.
const Kernels& kernels(const char* name);
// Names of the tables that this machine can run, lowest first, null-terminated.
const char* const* kernel_names();

}  // namespace sharpbeam
