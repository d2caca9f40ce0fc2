// The table in use behind clocks: what every kernel takes, reads and computes. Only who asks for this table pays for
// the clocks, and every model and output layer can be built with it, since all of their work is done by kernels.
#pragma once

#include <cstdint>

#include "kernels/table.h"

namespace sharpbeam {

// Of one kernel, since the last time that somebody asked.
struct KernelWork {
  int64_t calls = 0;
  int64_t nanoseconds = 0;
  int64_t bytes = 0;       // of the arrays that it reads and writes, each counted once in a call
  int64_t operations = 0;  // multiply-adds of a product, elements of anything else
};

constexpr int kKernelCount = 29;  // kernels

// The bits of kernels(), and its name.
const Kernels& profiled_kernels();

const char* profiled_name(int kernel);

// Where kernels are at work: in what the caller watches himself, or in a part of a turn that the core takes whole.
enum class StepPart : int { watched, decoder, output };
constexpr int kStepParts = 3;

// The life of a part. Does nothing unless its kernels are those behind clocks.
class PartSpan {
 public:
  PartSpan(const Kernels& table, StepPart part);
  ~PartSpan();
  PartSpan(const PartSpan&) = delete;

 private:
  bool profiled_;
  int64_t began_ = 0;
};

// What the calls of this thread did in a part since the last time; kKernelCount stands for the part itself, which has
// calls and time only.
KernelWork take_work(StepPart part, int kernel);

}  // namespace sharpbeam
