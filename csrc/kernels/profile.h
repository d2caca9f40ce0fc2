// A table that times the kernels of the table in use.
// Only a model or an output layer that is built with this table pays for the clocks.
#pragma once

#include <cstdint>

#include "kernels/table.h"

namespace sharpbeam {

// The work of one kernel since the last call of take_work.
struct KernelWork {
  int64_t calls = 0;
  int64_t nanoseconds = 0;
};

constexpr int kKernelCount = 35;
constexpr int kPeakCount = 3;  // loops of a table that are no kernels

// Returns the bits of kernels(), and has its name.
const Kernels& profiled_kernels();

const char* profiled_name(int kernel);

// The part of a decoding step that a kernel's time counts for: the decoder or the output layer where the core runs the
// step (search/native_forward.h), `caller` where anything else calls it.
enum class StepPart : int { caller, decoder, output };
constexpr int kStepParts = 3;

// Times a part from construction to destruction. Does nothing unless `table` is profiled_kernels().
class PartSpan {
 public:
  PartSpan(const Kernels& table, StepPart part);
  ~PartSpan();
  PartSpan(const PartSpan&) = delete;

 private:
  bool profiled_;
  int64_t began_ = 0;
};

// The work of this thread's calls in a part since the last call; `kernel` = kKernelCount means the part itself, whose
// calls are steps.
KernelWork take_work(StepPart part, int kernel);

}  // namespace sharpbeam
