// The table in use behind clocks: what every kernel takes, reads and computes. Only who asks for this table pays for
// the clocks, and every model and output layer can be built with it, since all of their work is done by kernels.
#pragma once

#include <cstdint>

#include "kernels/table.h"

namespace quickbeam {

// Of one kernel, since the last time that somebody asked.
struct KernelWork {
  int64_t calls = 0;
  int64_t nanoseconds = 0;
  int64_t bytes = 0;       // of the arrays that it reads and writes, each counted once in a call
  int64_t operations = 0;  // multiply-adds of a product, elements of anything else
};

constexpr int kProfiled = 29;  // kernels

// The bits of kernels(), and its name.
const Kernels& profiled_kernels();

const char* profiled_name(int kernel);
// What the calls of this thread did since the last time.
KernelWork take_work(int kernel);

}  // namespace quickbeam
