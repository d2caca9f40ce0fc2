// Native work, and the end of the interpreter: no thread may be in native code by then.
//
// Python ends a thread that asks for the GIL after it has begun to finalize, by unwinding its stack; through a frame of
// C++ that aborts the process. So `end_native_work`, which Python calls at exit, waits until no thread is in native
// code, and from then on every thread that would begin some sleeps instead, except the one that ends the process.
#pragma once

#include <nanobind/nanobind.h>

namespace sharpbeam {

// Work that the end of Python waits for, for as long as it lives. To be made and ended with the GIL.
class NativeWork {
 public:
  NativeWork();
  ~NativeWork();
  NativeWork(const NativeWork&) = delete;
};

// Native work without the GIL: released for as long as it lives.
class WithoutGil {
 public:
  WithoutGil() : state_{PyEval_SaveThread()} {}
  ~WithoutGil() { PyEval_RestoreThread(state_); }
  WithoutGil(const WithoutGil&) = delete;

 private:
  NativeWork work_;
  PyThreadState* state_;
};

// For what threads call and makes objects of Python: the collector may run meanwhile, and give up the GIL.
constexpr nanobind::call_guard<NativeWork> kGuard;

}  // namespace sharpbeam
