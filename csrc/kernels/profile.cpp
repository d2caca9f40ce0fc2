#include "kernels/profile.h"

#include <chrono>
#include <utility>

namespace sharpbeam {
namespace {

using Clock = std::chrono::steady_clock;
using Floats = const float*;

thread_local KernelWork work_by_part[kStepParts][kKernelCount + 1];  // the last one of a part is the part itself
thread_local StepPart current_part = StepPart::caller;

KernelWork* work_of(StepPart part) { return work_by_part[static_cast<int>(part)]; }

struct Size {
  int64_t bytes, operations;
};

constexpr int64_t kFloat = sizeof(float);

Size matmul(int64_t weight_bytes, int64_t input_bytes, int64_t rows, int64_t in, int64_t out) {
  return {weight_bytes + rows * (in * input_bytes + out * kFloat), rows * in * out};
}

// One kernel: its member of the table, its name, and the size of a call.
#define SHARPBEAM_PROFILED(Type, member, ...)         \
  struct Type {                                       \
    static constexpr auto kKernel = &Kernels::member; \
    static constexpr const char* kName = #member;     \
    static Size size(__VA_ARGS__)
// clang-format off
SHARPBEAM_PROFILED(Gemm, gemm, Floats, Floats, Floats, int64_t, float*, int64_t, int64_t rows, int64_t in,
                   int64_t out) { return matmul(packed_size(in, out) * kFloat, kFloat, rows, in, out); } };
SHARPBEAM_PROFILED(GemmInt8, gemm_int8, const uint8_t*, Floats, Floats, const int8_t*, int64_t, Floats, float*,
                   int64_t, int64_t rows, int64_t in, int64_t out) {
  return matmul(packed_size(padded_int8(in), out), 1, rows, in, out); } };
SHARPBEAM_PROFILED(GemmInt16, gemm_int16, const int16_t*, Floats, Floats, const int16_t*, int64_t, Floats,
                   float*, int64_t, int64_t rows, int64_t in, int64_t out) {
  return matmul(2 * packed_size(padded_int16(in), out), 2, rows, in, out); } };
SHARPBEAM_PROFILED(GatherDot, gather_dot, Floats, Floats, Floats, const int32_t*, int64_t count, int64_t dim,
                   float*) { return {count * dim * kFloat, count * dim}; } };
SHARPBEAM_PROFILED(GatherDotInt4, gather_dot_int4, const uint8_t*, int64_t stride, const int8_t*, const int32_t*, int64_t count,
                   int32_t*) { return {count * stride, 2 * count * stride}; } };
SHARPBEAM_PROFILED(QuantizeInt8, quantize_int8, Floats, int64_t n, int8_t*) { return {n * (kFloat + 1), n}; } };
SHARPBEAM_PROFILED(QuantizeWeights, quantize_weights, const double*, int64_t n, float, uint8_t*) {
  return {n * (2 * kFloat + 1), n}; } };
SHARPBEAM_PROFILED(QuantizeInt16, quantize_int16, Floats, int64_t n, int16_t*) { return {n * (kFloat + 2), n}; } };
SHARPBEAM_PROFILED(Tanh, tanh, float*, int64_t n) { return {2 * n * kFloat, n}; } };
SHARPBEAM_PROFILED(Sigmoid, sigmoid, float*, int64_t n) { return {2 * n * kFloat, n}; } };
SHARPBEAM_PROFILED(Gru, gru, Floats, Floats, Floats, float*, int64_t dim) { return {8 * dim * kFloat, 3 * dim}; } };
SHARPBEAM_PROFILED(Lstm, lstm, Floats, Floats, Floats, float*, float*, int64_t dim) {
  return {11 * dim * kFloat, 4 * dim}; } };
SHARPBEAM_PROFILED(MlpKeys, mlp_keys, Floats, double*, int64_t n) { return {3 * n * kFloat, n}; } };
SHARPBEAM_PROFILED(MlpScores, mlp_scores, const double*, const double*, const double*, float*, int64_t positions,
                   int64_t dim) { return {2 * positions * dim * kFloat, positions * dim}; } };
SHARPBEAM_PROFILED(DotScores, dot_scores, Floats, Floats, float*, int64_t positions, int64_t dim) {
  return {positions * dim * kFloat, positions * dim}; } };
SHARPBEAM_PROFILED(Softmax, softmax, float*, int64_t rows, int64_t n) { return {2 * rows * n * kFloat, rows * n}; } };
SHARPBEAM_PROFILED(WeightedSum, weighted_sum, Floats, Floats, float*, int64_t positions, int64_t dim) {
  return {positions * dim * kFloat, positions * dim}; } };
SHARPBEAM_PROFILED(MultiheadScores, multihead_scores, Floats, const Floats*, int64_t, float*, int64_t, int64_t positions,
                   int64_t heads, int64_t dim) {
  return {positions * heads * dim * kFloat, positions * heads * dim}; } };
SHARPBEAM_PROFILED(MultiheadContext, multihead_context, Floats, int64_t, const Floats*, int64_t, float*, int64_t positions,
                   int64_t heads, int64_t dim) {
  return {positions * heads * dim * kFloat, positions * heads * dim}; } };
SHARPBEAM_PROFILED(AddNorm, add_norm, float*, Floats, Floats, Floats, float, float*, int64_t n) {
  return {4 * n * kFloat, 3 * n}; } };
SHARPBEAM_PROFILED(AddRmsNorm, add_rms_norm, float*, Floats, Floats, float, float*, int64_t n) {
  return {4 * n * kFloat, 2 * n}; } };
SHARPBEAM_PROFILED(Add, add, float*, Floats, int64_t n) { return {3 * n * kFloat, n}; } };
SHARPBEAM_PROFILED(Mul, mul, float*, Floats, int64_t n) { return {3 * n * kFloat, n}; } };
SHARPBEAM_PROFILED(Relu, relu, float*, int64_t n) { return {2 * n * kFloat, n}; } };
SHARPBEAM_PROFILED(Swish, swish, float*, float, int64_t n) { return {2 * n * kFloat, n}; } };
SHARPBEAM_PROFILED(Gelu, gelu, float*, int64_t n) { return {2 * n * kFloat, n}; } };
SHARPBEAM_PROFILED(GeluTanh, gelu_tanh, float*, int64_t n) { return {2 * n * kFloat, n}; } };
SHARPBEAM_PROFILED(Ssru, ssru, Floats, Floats, float*, float*, int64_t dim) { return {5 * dim * kFloat, dim}; } };
SHARPBEAM_PROFILED(LogSumExp, log_sum_exp, Floats, int64_t n) { return {n * kFloat, n}; } };
SHARPBEAM_PROFILED(LogSumExpBelow, log_sum_exp_below, Floats, float, int64_t n) { return {n * kFloat, n}; } };
SHARPBEAM_PROFILED(PanelMaxima, panel_maxima, Floats, int64_t panels, float*) {
  return {panels * kPanel * kFloat, panels * kPanel}; } };
SHARPBEAM_PROFILED(TopK, top_k, Floats, int64_t n, int64_t, float*, int32_t*) { return {n * kFloat, n}; } };
SHARPBEAM_PROFILED(FindAtLeast, find_at_least, Floats, Floats, Floats, float, float, float, int64_t n, int32_t*) {
  return {3 * n * kFloat, n}; } };
SHARPBEAM_PROFILED(FindInPanels, find_in_panels, Floats, Floats, Floats, float, float, float, const int32_t*,
                   int64_t panels, int32_t*) {
  return {panels * kPanel * kFloat, panels * kPanel}; } };
SHARPBEAM_PROFILED(SumExpInPanels, sum_exp_in_panels, Floats, float, const int32_t*, int64_t panels) {
  return {panels * kPanel * kFloat, panels * kPanel}; } };
SHARPBEAM_PROFILED(PreviewInt4, preview_int4, const uint8_t*, Floats, Floats, const int8_t*, int64_t, Floats, float*,
                   int64_t, float*, int64_t, int64_t rows, int64_t in, int64_t panels) {
  return {panels * kPanel * (in / 2 + 2 * kFloat) + rows * (in + panels * kPanel * kFloat), rows * in * panels * kPanel}; } };
// clang-format on
#undef SHARPBEAM_PROFILED

// Stops its clock at the end of a call.
class Span {
 public:
  Span(KernelWork& work, Size size) : work_(work) {
    ++work.calls;
    work.bytes += size.bytes;
    work.operations += size.operations;
    began_ = Clock::now();
  }
  ~Span() { work_.nanoseconds += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - began_).count(); }

 private:
  KernelWork& work_;
  Clock::time_point began_;
};

template <typename Kernel, int kIndex, typename Result, typename... Arguments>
Result timed(Arguments... given) {
  const Span span(work_of(current_part)[kIndex], Kernel::size(given...));
  return (kernels().*Kernel::kKernel)(given...);
}

template <typename... Profiled>
struct List {
  static constexpr const char* kNames[] = {Profiled::kName...};
  static_assert(sizeof...(Profiled) == kKernelCount);
  static_assert(sizeof(Kernels) == (1 + kKernelCount + kPeakCount) * sizeof(void*), "a kernel is missing here");

  static Kernels table() {
    Kernels result = kernels();
    put(result, std::make_integer_sequence<int, kKernelCount>());
    return result;
  }

 private:
  template <int... kIndices>
  static void put(Kernels& result, std::integer_sequence<int, kIndices...>) {
    (put_one<Profiled, kIndices>(result.*Profiled::kKernel), ...);
  }
  template <typename Kernel, int kIndex, typename Result, typename... Arguments>
  static void put_one(Result (*&place)(Arguments...)) {
    place = &timed<Kernel, kIndex, Result, Arguments...>;
  }
};

using All = List<Gemm, GemmInt8, GemmInt16, GatherDot, GatherDotInt4, QuantizeInt8, QuantizeWeights, QuantizeInt16,
                 Tanh, Sigmoid, Gru, Lstm, MlpKeys, MlpScores, DotScores, Softmax, WeightedSum, MultiheadScores,
                 MultiheadContext, AddNorm, AddRmsNorm, Add, Mul, Relu, Swish, Gelu, GeluTanh, Ssru, LogSumExp,
                 LogSumExpBelow, PanelMaxima, SumExpInPanels, TopK, FindAtLeast, FindInPanels, PreviewInt4>;

}  // namespace

const Kernels& profiled_kernels() {
  static const Kernels table = All::table();
  return table;
}

const char* profiled_name(int kernel) { return All::kNames[kernel]; }

PartSpan::PartSpan(const Kernels& table, StepPart part) : profiled_(&table == &profiled_kernels()) {
  if (!profiled_) return;
  current_part = part;
  began_ = Clock::now().time_since_epoch().count();
}

PartSpan::~PartSpan() {
  if (!profiled_) return;
  KernelWork& work = work_of(current_part)[kKernelCount];
  ++work.calls;
  const Clock::duration spent(Clock::now().time_since_epoch().count() - began_);
  work.nanoseconds += std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count();
  current_part = StepPart::caller;
}

KernelWork take_work(StepPart part, int kernel) { return std::exchange(work_of(part)[kernel], KernelWork()); }

}  // namespace sharpbeam
