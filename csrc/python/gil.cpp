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
// And for threads that were in native code just now, to come back to it, where they sleep: between two calls they may
// be in other libraries, which such an end of a thread aborts too.
constexpr auto kQuiet = std::chrono::milliseconds(50);

std::atomic<int64_t> working{0};  // threads in native code
std::atomic<bool> ended{false};
std::thread::id last;                                      // the thread that ends the process; set before `ended`
const std::thread::id first = std::this_thread::get_id();  // the thread that imports the module
std::atomic<Clock::time_point> left{Clock::time_point{}};  // when another one was in native code last
thread_local int depth = 0;  // of this thread's native work: it may call Python that calls some

void end_native_work() {
  last = std::this_thread::get_id();
  ended.store(true);
  const nanobind::gil_scoped_release release;  // threads need it to leave
  const auto until = Clock::now() + kMostWait;
  const auto busy = [&] { return working.load() > 0 || Clock::now() - left.load() < kQuiet; };
  while (busy() && Clock::now() < until) std::this_thread::sleep_for(std::chrono::microseconds(200));
}

}  // namespace

WithoutGil::WithoutGil() {
  const bool stays = depth > 0 || !ended.load() || std::this_thread::get_id() == last;
  if (stays) ++working, ++depth;  // with the GIL, so before end_native_work waits
  state_ = PyEval_SaveThread();
  while (!stays) pause();
}

WithoutGil::~WithoutGil() {
  PyEval_RestoreThread(state_);
  if (std::this_thread::get_id() != first) left.store(Clock::now());
  --working, --depth;
}

void bind_gil(nanobind::module_& module) {
  system::at_fork(nullptr, nullptr, [] { working.store(0); });  // threads stay in the parent
  module.def("ended", [] { return ended.load(); }, "Whether Python ends, so that no thread but one takes steps.");
  nanobind::module_::import_("atexit").attr("register")(nanobind::cpp_function(end_native_work));
}

}  // namespace sharpbeam
