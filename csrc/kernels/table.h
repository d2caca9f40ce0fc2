// The table of kernels: one for each instruction set, chosen once at load, all held bit-equal to the scalar one.
//
// Why bit-equal works for floats too: every sum is taken in an order that the table does not choose. A product's
// output element is one chain of fused multiply-adds over k = 0, 1, ..; a reduction over a vector runs in 16 lanes
// (lane i takes the elements i, i + 16, ..), which are then added pairwise in a fixed order. tanh, sigmoid, exp are
// polynomials with a fixed order of operations. So the answer depends on the row alone: not on the batch around
// it, the number of threads, or the machine.
#pragma once

#include <cstdint>

namespace sharpbeam {

constexpr int kLanes = 16;  // lanes of every reduction, whatever the registers are
constexpr int kPanel = 64;  // output columns that are packed side by side

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Size in floats of a packed [out, in] matrix: panels of kPanel columns, zero-padded, element (k, column) of a
// panel at k * kPanel + column.
constexpr int64_t packed_size(int64_t in, int64_t out) { return round_up(out, kPanel) * in; }

constexpr int kInt8Group = 4;  // neighbours along `in` that an int8 product takes at a time
constexpr int64_t padded_int8(int64_t in) { return round_up(in, kInt8Group); }
constexpr int kInt16Group = 2;  // the same of an int16 product
constexpr int64_t padded_int16(int64_t in) { return (in + kInt16Group - 1) / kInt16Group * kInt16Group; }
constexpr int64_t kRowAlignment = 64;  // what a row of bytes is padded to that is read alone
// The most `in` of an int8 product: 255 * 127 * in must fit 32 bits.
constexpr int64_t kMaxInt8Depth = 65536;
constexpr int kMaxInt16Input = 4095;  // multiples that inputs of an int16 product are rounded to; weights take the rest

struct Kernels {
  const char* name;

  // y[r * y_stride + n] = bias[n] + sum over k of x[r * x_stride + k] * w[n][k], for r < rows, n < out.
  // `packed` as above; `bias` [out] or null (zero); any number of rows. Sums start at the bias.
  void (*gemm)(const float* packed, const float* bias, const float* x, int64_t x_stride, float* y, int64_t y_stride,
               int64_t rows, int64_t in, int64_t out);

  // In place, element-wise, the float nearest to the exact value: within 0.501 units in the last place, and another
  // one for at most one value in 10,000; NaN stays. So are the cells and scores of mlp attention below.
  void (*tanh)(float* x, int64_t n);
  void (*sigmoid)(float* x, int64_t n);

  // One GRU row in doubles, gates in the order r, z, n: next = n + z * (state - n), r, z = sigmoid(x + h), n = tanh(x +
  // r h). `input` and `hidden` are [3 * dim]; `next` may be `state`.
  void (*gru)(const float* input, const float* hidden, const float* state, float* next, int64_t dim);

  // One LSTM row in doubles, gates in the order i, f, g, o: next = f * cell + i * g and output = o * tanh(next), where
  // i, f, o = sigmoid(x + h), g = tanh(x + h). `input` and `hidden` are [4 * dim]; `next` may be `cell`.
  void (*lstm)(const float* input, const float* hidden, const float* cell, float* next, float* output, int64_t dim);

  // What mlp_scores of the same table reads of n elements x of keys or queries. One beyond 44 in size counts as 44.
  void (*mlp_keys)(const float* x, double* keys, int64_t n);
  // scores[s] = sum over a of weight[a] * tanh(keys[s][a] + query[a]) in doubles   (CUBE eq. 4)
  void (*mlp_scores)(const double* query, const double* keys, const double* weight, float* scores, int64_t positions,
                     int64_t dim);
  // scores[s] = sum over a of keys[s][a] * query[a]
  void (*dot_scores)(const float* query, const float* keys, float* scores, int64_t positions, int64_t dim);
  // In place softmax of each row of x [rows, n]; a score below e^-87.3 of its row's largest becomes 0. NaN in a row
  // with a NaN or +inf, or of -inf alone.
  void (*softmax)(float* x, int64_t rows, int64_t n);
  // out[d] = sum over s of weights[s] * values[s][d], one chain over s for each d.
  void (*weighted_sum)(const float* weights, const float* values, float* out, int64_t positions, int64_t dim);

  // Attention of `heads` heads, each `dim` wide; keys[p] + offset and values[p] + offset are the heads of position p
  // side by side, [heads * dim]. scores[h * stride + p] = sum over i of query[h * dim + i] * keys[p][offset + h * dim +
  // i] in 16 lanes; then lanes 4 g + (0 + 2) + (1 + 3) of each four, then fours (0 + 2) + (1 + 3).
  void (*multihead_scores)(const float* query, const float* const* keys, int64_t offset, float* scores, int64_t stride,
                           int64_t positions, int64_t heads, int64_t dim);
  // out[h * dim + i] = sum over p of weights[h * stride + p] * values[p][offset + h * dim + i], one chain over p.
  void (*multihead_context)(const float* weights, int64_t stride, const float* const* values, int64_t offset,
                            float* out, int64_t positions, int64_t heads, int64_t dim);
  // x += added (nothing where it is null); then y = (x - mean) / sqrt(variance + epsilon) * weight + bias, all [n]; y
  // may be x.
  void (*add_norm)(float* x, const float* added, const float* weight, const float* bias, float epsilon, float* y,
                   int64_t n);
  // In place, element-wise, all [n]: x + y; x y; the larger of x and 0; x sigmoid(slope x); x times the chance that a
  // normal variable is below x, within 2e-7 |x|.
  void (*add)(float* x, const float* y, int64_t n);
  void (*mul)(float* x, const float* y, int64_t n);
  void (*relu)(float* x, int64_t n);
  void (*swish)(float* x, float slope, int64_t n);
  void (*gelu)(float* x, int64_t n);
  // One row of a simpler simple recurrent unit: next = x + sigmoid(f) * (cell - x), output = the larger of next and 0;
  // `input` is [x, f], 2 * dim; `next` may be `cell`.
  void (*ssru)(const float* input, const float* cell, float* next, float* output, int64_t dim);

  // 16 lanes of whole numbers, so any order is exact; then one rounding of each float operation:
  // y[r][n] = bias[n] + x_scale[r] * (scale[n] * float(sum over k of x[r][k] * w[n][k])), for r < rows, n < out.
  // `packed`: panels of kPanel words, then blocks of kInt8Group of `in`, then for each word kInt8Group bytes w + 128. x
  // is [rows, x_stride], each x and w from -127 to 127, zero from `in` to the next multiple of kInt8Group.
  void (*gemm_int8)(const uint8_t* packed, const float* scale, const float* bias, const int8_t* x, int64_t x_stride,
                    const float* x_scale, float* y, int64_t y_stride, int64_t rows, int64_t in, int64_t out);
  // Rounds x [n] to q [n] from -127 to 127 times the scale that is given back, max |x| / 127 (0 where all are zero).
  // No promise about x with a NaN or an infinity but that it ends.
  float (*quantize_int8)(const float* x, int64_t n, int8_t* q);

  // Writes to q [n] the whole numbers nearest to w [n] / scale, from -127 to 127, plus 128 (those of scale 0 are 0).
  // Gives back the squared Euclidean norm of what that loses. No promise about w with a NaN or an infinity or more than
  // 127 * scale in size, but that it ends.
  double (*quantize_weights)(const double* w, int64_t n, float scale, uint8_t* q);

  // As gemm_int8 of 16-bit numbers, blocks of two of `in`. Whoever packs sees to it that no sum leaves 32 bits: x
  // from -kMaxInt16Input to kMaxInt16Input, zero behind `in` to the next multiple of two.
  void (*gemm_int16)(const int16_t* packed, const float* scale, const float* bias, const int16_t* x, int64_t x_stride,
                     const float* x_scale, float* y, int64_t y_stride, int64_t rows, int64_t in, int64_t out);
  // As `quantize`, from -kMaxInt16Input to kMaxInt16Input.
  float (*quantize_int16)(const float* x, int64_t n, int16_t* q);

  // sums[i] = sum over k < stride of x[k] * (rows[words[i] * stride + k] - 128): whole numbers, so any order is exact.
  // `stride` is a multiple of kRowAlignment; each x and row[k] - 128 from -127 to 127.
  void (*gather_dot_int8)(const uint8_t* rows, int64_t stride, const int8_t* x, const int32_t* words, int64_t count,
                          int32_t* sums);
  // Indices i with not (x[i] + by_a * a[i] + by_b * b[i] < bar), ascending, into `found` (room for n + kLanes);
  // how many there are. A NaN is found.
  int64_t (*find_at_least)(const float* x, const float* a, const float* b, float by_a, float by_b, float bar, int64_t n,
                           int32_t* found);
  // y[i] = bias[word] + sum over k of x[k] * weight[word][k], word = words[i]: the bits of `multiply`, from a
  // row-major `weight` [.., dim].
  void (*gather_dot)(const float* weight, const float* bias, const float* x, const int32_t* words, int64_t count,
                     int64_t dim, float* y);

  // log(sum(exp(x))), in 16 lanes, within 1e-6 relative (absolute, where it is below 1). -inf where all are -inf; NaN
  // where there is a NaN or +inf.
  float (*log_sum_exp)(const float* x, int64_t n);
  // The k largest of x[0..n), largest first, equal values by lower index; a NaN counts, and is given back, as -inf.
  // Needs 1 <= k <= n.
  void (*top_k)(const float* x, int64_t n, int64_t k, float* values, int32_t* indices);
};

// The table to use: the best of this machine, or a lower one named by SHARPBEAM_ISA (scalar, avx2, avx512,
// avx512vnni); another name, or one that this machine lacks, throws std::invalid_argument.
const Kernels& kernels();
// The table `name`, for tests; throws std::invalid_argument with the names that this machine has.
const Kernels& kernels(const char* name);
// Names of the tables that this machine can run, lowest first, null-terminated.
const char* const* kernel_names();

}  // namespace sharpbeam
