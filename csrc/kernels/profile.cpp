#include "kernels/profile.h"

#include <chrono>
#include <utility>

namespace sharpbeam {
namespace {

using Clock = std::chrono::steady_clock;

thread_local KernelWork work_by_part[kStepParts][kKernelCount + 1];  // the last one of a part is the part itself
thread_local StepPart current_part = StepPart::caller;

KernelWork* work_of(StepPart part) { return work_by_part[static_cast<int>(part)]; }

// All kernels: the members of the table that are functions.
// clang-format off
#define SHARPBEAM_KERNELS(X)                                                                                     \
  X(gemm) X(gemm_bfloat16) X(gemm_int8) X(gemm_int16) X(gather_dot) X(quantize_int8) X(quantize_weights)         \
  X(quantize_int16) X(tanh) X(gru) X(lstm) X(mlp_keys) X(mlp_scores) X(dot_scores) X(softmax)                    \
  X(multihead_scores) X(multihead_context) X(add_norm) X(add_rms_norm) X(add) X(mul) X(relu) X(swish) X(gelu)    \
  X(gelu_tanh) X(ssru) X(log_sum_exp) X(log_sum_exp_below) X(panel_maxima) X(sum_exp_in_panels) X(top_k)         \
  X(find_at_least) X(find_in_panels) X(code_tables) X(preview_codes)
// clang-format on

#define SHARPBEAM_INDEX(kernel) k_##kernel,
#define SHARPBEAM_NAME(kernel) #kernel,
enum Index : int { SHARPBEAM_KERNELS(SHARPBEAM_INDEX) kCount };
constexpr const char* kNames[] = {SHARPBEAM_KERNELS(SHARPBEAM_NAME)};
static_assert(kCount == kKernelCount);
static_assert(sizeof(Kernels) == (2 + kKernelCount + kPeakCount) * sizeof(void*), "a kernel is missing here");

// Stops its clock at the end of a call.
class Span {
 public:
  explicit Span(KernelWork& work) : work_(work), began_(Clock::now()) { ++work.calls; }
  ~Span() { work_.nanoseconds += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - began_).count(); }

 private:
  KernelWork& work_;
  Clock::time_point began_;
};

template <auto kKernel, int kIndex, typename Result, typename... Arguments>
Result timed(Arguments... arguments) {
  const Span span(work_of(current_part)[kIndex]);
  return (kernels().*kKernel)(arguments...);
}

template <auto kKernel, int kIndex, typename Result, typename... Arguments>
void put(Result (*&place)(Arguments...)) {
  place = &timed<kKernel, kIndex, Result, Arguments...>;
}

Kernels profiled() {
  Kernels table = kernels();
#define SHARPBEAM_PUT(kernel) put<&Kernels::kernel, k_##kernel>(table.kernel);
  SHARPBEAM_KERNELS(SHARPBEAM_PUT)
  return table;
}

}  // namespace

const Kernels& profiled_kernels() {
  static const Kernels table = profiled();
  return table;
}

const char* profiled_name(int kernel) { return kNames[kernel]; }

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
