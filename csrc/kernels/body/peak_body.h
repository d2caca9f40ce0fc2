// Plain loops of the instructions of a gemm, for the figure that its speed is compared with: nothing but a register
// block, whose operands stay in the first cache. Part of body.h.

constexpr int64_t kPeakBytes = 1024;  // as many as the weights or the inputs of a step take, at most

// Returns `count`; the compiler must have computed the sums.
inline int64_t finish_peak(const void* sums, int64_t count) {
  asm volatile("" : : "r"(sums) : "memory");
  return count;
}

template <typename Unit>
int64_t integer_peak(int64_t steps, int64_t group) {
  constexpr int kRows = Unit::kRows, kVecs = Unit::vecs(kRows);
  alignas(kLine) uint8_t weight[kPeakBytes] = {}, x[kPeakBytes] = {};
  Ints total[kRows][kVecs];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kVecs; ++c) total[r][c] = set_ints(0);
  }
  for (int64_t step = 0; step < steps; ++step) {
    asm volatile("" : : "r"(weight), "r"(x) : "memory");  // both may have changed: each step reads them again
    typename Unit::Weights w[kVecs];
#pragma GCC unroll 4
    for (int c = 0; c < kVecs; ++c) w[c] = Unit::load_weights(weight + c * kLanes * sharpbeam::kInt8Group);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const typename Unit::Inputs input = Unit::load_inputs(x + r * kInputGroup<Unit>);
#pragma GCC unroll 4
      for (int c = 0; c < kVecs; ++c) total[r][c] = Unit::dot(total[r][c], w[c], input);
    }
  }
  int32_t sums[kRows][kVecs * kLanes];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kVecs; ++c) store_ints(sums[r] + c * kLanes, total[r][c]);
  }
  return finish_peak(sums, steps * kRows * kVecs * kLanes * group);
}

int64_t peak_int8_kernel(int64_t steps) { return integer_peak<Int8>(steps, sharpbeam::kInt8Group); }

int64_t peak_int16_kernel(int64_t steps) { return integer_peak<Int16>(steps, sharpbeam::kInt16Group); }

int64_t peak_float32_kernel(int64_t steps) {
  alignas(kLine) float weight[kPeakBytes / sizeof(float)] = {}, x[kBlockRows] = {};
  Vec total[kBlockRows][kBlockVecs];
#pragma GCC unroll 8
  for (int r = 0; r < kBlockRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kBlockVecs; ++c) total[r][c] = set(0.0f);
  }
  for (int64_t step = 0; step < steps; ++step) {
    asm volatile("" : : "r"(weight), "r"(x) : "memory");
#pragma GCC unroll 8
    for (int c = 0; c < kBlockVecs; ++c) {
      const Vec w = load(weight + c * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kBlockRows; ++r) total[r][c] = fma(set(x[r]), w, total[r][c]);
    }
  }
  float sums[kBlockRows][kBlockVecs * kLanes];
#pragma GCC unroll 8
  for (int r = 0; r < kBlockRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kBlockVecs; ++c) store(sums[r] + c * kLanes, total[r][c]);
  }
  return finish_peak(sums, steps * kBlockRows * kBlockVecs * kLanes);
}
