#include "python/gil.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "core/system.h"
#include "python/bindings.h"

namespace sharpbeam {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kMostWait = std::chrono::seconds(30);  // for native work that was begun

std::atomic<int64_t> working{0};  // threads in native code
std::atomic<bool> ended{false};
std::thread::id last;        // the thread that ends the process; set before `ended`
thread_local int depth = 0;  // of this thread's native work: it may call Python that calls some

void end_native_work() {
  last = std::this_thread::get_id();
  ended.store(true);
  const nanobind::gil_scoped_release release;  // threads need it to leave
  const auto until = Clock::now() + kMostWait;
  while (working.load() > 0 && Clock::now() < until) std::this_thread::sleep_for(std::chrono::microseconds(200));
}

}  // namespace

NativeWork::NativeWork() {
  if (depth == 0 && ended.load() && std::this_thread::get_id() != last) {
    PyEval_SaveThread();
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  ++working, ++depth;  // with the GIL, so before end_native_work waits
}

NativeWork::~NativeWork() { --working, --depth; }

void bind_gil(nanobind::module_& module) {
  system::at_fork(nullptr, nullptr, [] { working.store(0); });  // threads stay in the parent
  module.def("ended", [] { return ended.load(); }, "Whether Python ends, so that no thread but one takes steps.");
  module.def(
      "call_native",
      [](const nanobind::callable& function, const nanobind::args& arguments) {
        const NativeWork work;
        return function(*arguments);
      },
      nanobind::sig("def call_native(function: collections.abc.Callable[..., Any], *arguments: Any) -> Any"),
      "Call a function of another library that releases the GIL in C++: the end of Python waits for it as for ours.");
  nanobind::module_::import_("atexit").attr("register")(nanobind::cpp_function(end_native_work));
}

}  // namespace sharpbeam
