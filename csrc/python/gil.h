// Native work without the GIL, and the end of the interpreter: no thread may be in native code by then.
//
// Python ends a thread that asks for the GIL after it has begun to finalize, by unwinding its stack; through a frame of
// C++ that aborts the process. So `end_native_work`, which Python calls at exit, waits until no thread is in native
// code, and from then on every thread that would begin some sleeps instead, except the one that ends the process.
#pragma once

#include <nanobind/nanobind.h>

namespace sharpbeam {

// Releases the GIL for as long as it lives. To be made with the GIL.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace sharpbeam
