// Quantization, and gemms of int8 and int16 numbers, whose 32-bit sums are exact. Part of body.h.
//
// Both types work on groups of 4 bytes along K: four int8 or two int16. A register holds one group of 16 columns of a
// packed panel (table.h), and the group of an input row is broadcast to all lanes.

// Whether a unit reads input rows in a form that it has prepared, twice as large.
template <typename Unit>
constexpr bool kPrepares = requires { &Unit::prepare; };
template <typename Unit>
constexpr int64_t kInputGroup = sharpbeam::kInt8Group * (kPrepares<Unit> ? 2 : 1);

// A register block of kRows rows by kVecs vectors of one panel. Not inlined: the compiler then allocates registers for
// this loop alone. Inlined into the dispatch over row counts below, g++ 12 spills accumulators inside it. `next` is
// what to prefetch: as much as is read here, or a quarter of it where `kMany` blocks of rows share the prefetching. A
// narrow block reads a part of each 256 bytes of its panel, which the hardware does not prefetch.
template <typename Unit, int kRows, int kVecs, bool kMany>
[[gnu::noinline]] void quantized_block(const uint8_t* weight, const float* scale, const float* bias, const uint8_t* x,
                                       int64_t x_bytes, const int32_t* start, const float* x_scale, float* y,
                                       int64_t y_stride, int64_t blocks, int64_t columns,
                                       [[maybe_unused]] const uint8_t* next) {
  constexpr int64_t kStep = int64_t{kPanel} * sharpbeam::kInt8Group;
  constexpr int kLines = kMany ? 1 : kVecs;
  Ints total[kRows][kVecs];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kVecs; ++c) total[r][c] = set_ints(start[r]);
  }
  for (int64_t k = 0; k < blocks; ++k, weight += kStep) {
    if constexpr (kMany || kRows >= 3 || kVecs * kLanes < kPanel) prefetch_lines<kLines>(next + k * kLines * kLine);
    typename Unit::Weights w[kVecs];
#pragma GCC unroll 4
    for (int c = 0; c < kVecs; ++c) {
      const uint8_t* from = weight + c * kLanes * sharpbeam::kInt8Group;
      w[c] = Unit::load_weights(from);
    }
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const typename Unit::Inputs input = Unit::load_inputs(x + r * x_bytes + k * kInputGroup<Unit>);
#pragma GCC unroll 4
      for (int c = 0; c < kVecs; ++c) total[r][c] = Unit::dot(total[r][c], w[c], input);
    }
  }
  // Through memory: scaling the accumulators in their registers makes g++ 12 spill them in the loop above.
  float sums[kRows][kVecs * kLanes];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kVecs; ++c) store(sums[r] + c * kLanes, to_floats(total[r][c]));
  }
  for (int64_t at = 0; at < kVecs * kLanes && at < columns; at += kLanes) {
    const int64_t left = columns - at;
    const Vec size = load_part(scale + at, left, 0.0f), start_at = load_part(bias + at, left, 0.0f);
    const auto result = [&](int r) { return add(start_at, mul(set(x_scale[r]), mul(size, load(sums[r] + at)))); };
    if (left >= kLanes) {
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) store(y + r * y_stride + at, result(r));
    } else {
      for (int r = 0; r < kRows; ++r) store_part(y + r * y_stride + at, left, result(r));
    }
  }
}

// One panel for at most kRows rows, in blocks as wide as the registers allow.
template <typename Unit, int kRows, bool kMany>
inline void quantized_rows(const uint8_t* weight, const float* scale, const float* bias, const uint8_t* x,
                           int64_t x_bytes, const int32_t* start, const float* x_scale, float* y, int64_t y_stride,
                           int64_t rows, int64_t blocks, int64_t columns, const uint8_t* next) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      quantized_rows<Unit, kRows - 1, kMany>(weight, scale, bias, x, x_bytes, start, x_scale, y, y_stride, rows, blocks,
                                             columns, next);
      return;
    }
  }
  constexpr int kVecs = Unit::vecs(kRows);
  for (int c = 0; c < kPanel && c < columns; c += kVecs * kLanes) {
    quantized_block<Unit, kRows, kVecs, kMany>(weight + c * sharpbeam::kInt8Group, scale + c, bias + c, x, x_bytes,
                                               start, x_scale, y + c, y_stride, blocks, columns - c,
                                               next + c * blocks * sharpbeam::kInt8Group / (kMany ? kVecs : 1));
  }
}

// The start of a row's sums where weights are stored as w + 128: it cancels 128 * the sum of the row.
template <typename Unit>
inline int32_t start_sum(const int8_t* x, int64_t n) {
  constexpr int64_t kInputs = 64;
  Ints sums = set_ints(0);
  int64_t k = 0;
  for (; k + kInputs <= n; k += kInputs) sums = Unit::add_inputs(sums, x + k);
  int32_t total = sum_ints(sums);
  for (; k < n; ++k) total += x[k];
  return -128 * total;
}

// The start of a row's sums. Writes the row to `to` where the unit prepares it.
template <typename Unit, typename Number>
inline int32_t start_row(const Number* x, int64_t in, [[maybe_unused]] uint8_t* to) {
  if constexpr (kPrepares<Unit>)
    return Unit::prepare(x, sharpbeam::padded_int8(in), to);
  else if constexpr (Unit::kUnsignedWeights)
    return start_sum<Unit>(x, in);
  else
    return 0;
}

template <bool kManyRows>
struct ManyRows {
  static constexpr bool kMany = kManyRows;
};

// `kSpace` is how many bytes prepared rows may take.
template <typename Unit, int64_t kSpace, typename Number>
inline void quantized_gemm(const uint8_t* packed, const float* scale, const float* bias, const Number* x,
                           int64_t x_stride, const float* x_scale, float* y, int64_t y_stride, int64_t rows, int64_t in,
                           int64_t out) {
  constexpr int64_t kMaxRows = 192;  // whose start sums are kept at a time
  constexpr int64_t kNumber = sizeof(Number), kNeighbors = sharpbeam::kInt8Group / kNumber;
  const int64_t blocks = (in + kNeighbors - 1) / kNeighbors;
  const int64_t bytes = kPanel * blocks * sharpbeam::kInt8Group;  // of a panel
  const int64_t x_bytes = kPrepares<Unit> ? blocks * kInputGroup<Unit> : x_stride * kNumber;
  const int64_t fitting = kPrepares<Unit> && kMaxRows * x_bytes > kSpace ? kSpace / x_bytes : kMaxRows;
  const int64_t most = fitting < Unit::kRows ? fitting : fitting / Unit::kRows * Unit::kRows;
  int32_t starts[kMaxRows];
  alignas(kLine) uint8_t prepared[kPrepares<Unit> ? kSpace : 1];
  for (int64_t from = 0; from < rows; from += most) {
    const int64_t count = rows - from < most ? rows - from : most;
    const int64_t parts = (count + Unit::kRows - 1) / Unit::kRows;
    const bool many = parts > 1 && parts >= Unit::vecs(Unit::kRows);  // they prefetch the next panel together
    const bool narrow = Unit::vecs(static_cast<int>(parts > 1 ? Unit::kRows : count)) * kLanes < kPanel;
    const int64_t ahead = many ? bytes : ahead_of(out * blocks * sharpbeam::kInt8Group, narrow);
    const uint8_t* input = kPrepares<Unit> ? prepared : reinterpret_cast<const uint8_t*>(x + from * x_stride);
    for (int64_t r = 0; r < count; ++r)
      starts[r] = start_row<Unit>(x + (from + r) * x_stride, in, prepared + (kPrepares<Unit> ? r * x_bytes : 0));
    for (int64_t n = 0; n < out; n += kPanel) {
      for (int64_t part = 0; part < parts; ++part) {  // balanced
        const int64_t first = part * count / parts, some = (part + 1) * count / parts - first;
        const uint8_t* panel = packed + n / kPanel * bytes;
        const uint8_t* next = panel + ahead + (many ? part * bytes / parts : 0);
        // A pointer to either would cost two sets of arguments on the stack for each block.
        const auto multiply = [&](auto kind) {
          quantized_rows<Unit, Unit::kRows, decltype(kind)::kMany>(
              panel, scale + n, bias + n, input + first * x_bytes, x_bytes, starts + first, x_scale + from + first,
              y + (from + first) * y_stride + n, y_stride, some, blocks, out - n, next);
        };
        many ? multiply(ManyRows<true>{}) : multiply(ManyRows<false>{});
      }
    }
  }
}

void gemm_int8_kernel(const uint8_t* packed, const float* scale, const float* bias, const int8_t* x, int64_t x_stride,
                      const float* x_scale, float* y, int64_t y_stride, int64_t rows, int64_t in, int64_t out) {
  constexpr int64_t kUsual = 8192;  // four prepared rows fit; only wider ones take more of the stack
  if constexpr (kPrepares<Int8>) {
    constexpr int64_t kMost = 2 * sharpbeam::kMaxInt8Depth;
    if (in > kUsual)
      return quantized_gemm<Int8, kMost>(packed, scale, bias, x, x_stride, x_scale, y, y_stride, rows, in, out);
  }
  quantized_gemm<Int8, 8 * kUsual>(packed, scale, bias, x, x_stride, x_scale, y, y_stride, rows, in, out);
}

void gemm_int16_kernel(const int16_t* packed, const float* scale, const float* bias, const int16_t* x, int64_t x_stride,
                       const float* x_scale, float* y, int64_t y_stride, int64_t rows, int64_t in, int64_t out) {
  quantized_gemm<Int16, 0>(reinterpret_cast<const uint8_t*>(packed), scale, bias, x, x_stride, x_scale, y, y_stride,
                           rows, in, out);
}

// The maximum absolute value of n numbers, or NaN if one is: max would lose it, a sum keeps it.
inline float max_abs(const float* x, int64_t n) {
  Vec top[4] = {set(0.0f), set(0.0f), set(0.0f), set(0.0f)};
  Vec sum[4] = {set(0.0f), set(0.0f), set(0.0f), set(0.0f)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const Vec size = abs(load(x + i + c * kLanes));
      top[c] = max(size, top[c]);
      sum[c] = add(sum[c], size);
    }
  }
  for (; i < n; i += kLanes) {
    const Vec size = abs(load_part(x + i, n - i, 0.0f));
    top[0] = max(size, top[0]);
    sum[0] = add(sum[0], size);
  }
  const Vec all = add(add(sum[0], sum[1]), add(sum[2], sum[3]));
  if (max_lane(select(less(set(-1.0f), all), set(0.0f), set(1.0f))) > 0.0f) return __builtin_nanf("");
  return max_lane(max(max(top[0], top[1]), max(top[2], top[3])));
}

// round(x * by), clamped to [-limit, limit], in the low bits of each lane.
inline Vec quantized(Vec x, Vec by, float limit) {
  const Vec low = set(-limit), high = set(limit);
  // `by` may be infinite, and 0 * infinity is NaN: max then returns its second argument.
  const Vec sized = max(mul(x, by), low);
  return add(select(less(high, sized), high, sized), set(kRound));
}

float quantize_int8_kernel(const float* x, int64_t n, int8_t* q) {
  const float most = max_abs(x, n);
  const Vec by = set(most > 0.0f ? 127.0f / most : 0.0f);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_int8(q + i, kLanes, quantized(load(x + i), by, 127.0f));
  if (i < n) store_int8(q + i, n - i, quantized(load_part(x + i, n - i, 0.0f), by, 127.0f));
  return most / 127.0f;
}

float quantize_int16_kernel(const float* x, int64_t n, int16_t* q) {
  constexpr float kMax = sharpbeam::kMaxInt16Input;
  const float most = max_abs(x, n);
  const Vec by = set(most > 0.0f ? kMax / most : 0.0f);
  for (int64_t i = 0; i < n; i += kLanes) store_int16(q + i, n - i, quantized(load_part(x + i, n - i, 0.0f), by, kMax));
  return most / kMax;
}

// A multiple of 16, too long for the compiler to unroll, so that it vectorizes the loops instead.
constexpr int64_t kWeights = 64;

// Quantizes kWeights weights; adds the square of each one's error to its own sum.
inline void quantize_block(const double* w, double by, double scale, uint8_t* q, double* square) {
  constexpr double kNear = 0x1.8p52;  // doubles of this size are integers, so adding it rounds
  double whole[kWeights];
  int32_t shifted[kWeights];
  for (int64_t i = 0; i < kWeights; ++i) whole[i] = w[i] / by + kNear - kNear;
  for (int64_t i = 0; i < kWeights; ++i) square[i] += (w[i] - whole[i] * scale) * (w[i] - whole[i] * scale);
  for (int64_t i = 0; i < kWeights; ++i) shifted[i] = static_cast<int32_t>(whole[i]) + 128;
  for (int64_t i = 0; i < kWeights; ++i) q[i] = static_cast<uint8_t>(shifted[i]);
}

double quantize_weights_kernel(const double* w, int64_t n, float scale, uint8_t* q) {
  const double by = scale > 0.0f ? static_cast<double>(scale) : __builtin_huge_val();
  double square[kWeights] = {}, rest[kWeights] = {}, total = 0.0;
  uint8_t last[kWeights];
  int64_t k = 0;
  for (; k + kWeights <= n; k += kWeights) quantize_block(w + k, by, scale, q + k, square);
  for (int64_t i = k; i < n; ++i) rest[i - k] = w[i];
  quantize_block(rest, by, scale, last, square);
  for (int64_t i = k; i < n; ++i) q[i] = last[i - k];
  for (double one : square) total += one;
  return total;
}
