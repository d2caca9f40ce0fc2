#include "core/team.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/system.h"

namespace sharpbeam {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMaxThreads = 1024;
constexpr int kLine = 64;  // bytes of a cache line: data that different threads write is on different lines
// How long a helper spins before it sleeps: longer than the time between two matmuls or two calls of a step, because
// waking it takes a system call and about 50 us.
constexpr auto kSpin = std::chrono::microseconds(200);
constexpr int kChecks = 32;  // spins between two readings of the clock
// A helper that keeps the caller waiting for longer than the caller's own share took, plus kPatience, has lost its
// core. The caller then works alone for a while, which is twice as long each time this happens again.
constexpr auto kPatience = std::chrono::microseconds(200);
constexpr Clock::duration kMinPause = std::chrono::milliseconds(20), kMaxPause = std::chrono::seconds(2);

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The parts of a job that no thread has begun, from `front` to `back` - 1, in one word.
constexpr uint64_t span(uint64_t front, uint64_t back) { return back << 32 | front; }
constexpr uint64_t front_of(uint64_t left) { return left & 0xffffffffu; }
constexpr uint64_t back_of(uint64_t left) { return left >> 32; }

}  // namespace

// The state shared by the caller and its helpers. A thread takes a part by a compare-and-swap on `left`, and may then
// read the job: the caller writes the next job only when `done` counts all parts of this one.
struct Team::Helpers {
  alignas(kLine) std::atomic<uint64_t> left{0};
  alignas(kLine) std::atomic<int64_t> done{0};
  alignas(kLine) std::atomic<uint32_t> wakeups{0};  // incremented to wake the helpers
  std::atomic<bool> asleep{false};                  // whether a helper may be asleep
  std::atomic<bool> stopped{false};
  alignas(kLine) Work work = nullptr;
  const void* context = nullptr;
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  std::vector<std::thread> threads;
  Clock::time_point alone_until{};  // this and `pause` are the caller's
  Clock::duration pause = kMinPause;

  int64_t take(bool first) {
    uint64_t now = left.load();
    while (front_of(now) < back_of(now)) {
      const uint64_t front = front_of(now), back = back_of(now);
      if (left.compare_exchange_weak(now, first ? span(front + 1, back) : span(front, back - 1)))
        return static_cast<int64_t>(first ? front : back - 1);
    }
    return -1;
  }

  void run(int64_t part) {
    try {
      work(context, part);
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
  }

  void wake() {
    if (!asleep.load() || !asleep.exchange(false)) return;
    wakeups.fetch_add(1);
    system::wake_all(wakeups);
  }

  void sleep() {
    const uint32_t seen = wakeups.load();
    asleep.store(true);
    // The caller reads `asleep` after it has stored the work, so one of both sees what the other has written.
    const uint64_t now = left.load();
    if (front_of(now) == back_of(now) && !stopped.load()) system::wait(wakeups, seen);
  }

  void help() {
    system::block_signals();  // they are handled by the threads that Python knows
    Clock::time_point since = Clock::now();
    for (int spins = 1; !stopped.load(std::memory_order_relaxed); ++spins) {
      const int64_t part = take(false);
      if (part >= 0) {
        run(part);
        done.fetch_add(1, std::memory_order_release);
        spins = 0;
        since = Clock::now();
      } else if (spins % kChecks == 0 && Clock::now() - since > kSpin) {
        sleep();
        since = Clock::now();
      } else {
        relax();
      }
    }
  }

  void parallel_for(int64_t parts, Work job, const void* with) {
    const Clock::time_point began = Clock::now();
    work = job;
    context = with;
    if (began < alone_until) {
      for (int64_t part = 0; part < parts; ++part) run(part);
    } else {
      done.store(0, std::memory_order_relaxed);
      left.store(span(0, static_cast<uint64_t>(parts)));
      wake();
      int64_t mine = 0;
      for (int64_t part = take(true); part >= 0; part = take(true), ++mine) run(part);
      wait(parts - mine, began);
    }
    if (failed.exchange(false)) std::rethrow_exception(std::exchange(error, nullptr));
  }

  // Waits until the helpers have done `others` parts of the job that began at `began`.
  void wait(int64_t others, Clock::time_point began) {
    const Clock::time_point since = Clock::now();
    const Clock::time_point late = since + (since - began) + kPatience;
    bool lost = false;
    for (int spins = 1; done.load(std::memory_order_acquire) < others; ++spins) {
      relax();
      if (spins % kChecks != 0) continue;
      lost = lost || Clock::now() > late;
      if (lost) std::this_thread::yield();
    }
    if (lost) {
      alone_until = Clock::now() + pause;
      pause = std::min(2 * pause, kMaxPause);
    } else if (since - alone_until > pause) {
      pause = kMinPause;  // no helper was late for as long as the last pause
    }
  }
};

namespace {

thread_local constinit Team* entered = nullptr;

}  // namespace

Team::Team(int64_t threads, int64_t grain_size) : threads_(threads), grain_size_(grain_size) {
  if (threads < 1 || threads > kMaxThreads)
    throw std::invalid_argument("threads is " + std::to_string(threads) + "; it must be from 1 to " +
                                std::to_string(kMaxThreads) + ".");
  if (grain_size < 1)
    throw std::invalid_argument("grain_size is " + std::to_string(grain_size) + "; it must be at least 1.");
  start();
}

Team::~Team() { stop(); }

void Team::start() {
  process_ = system::process();
  if (threads_ == 1) return;
  helpers_ = std::make_unique<Helpers>();
  Helpers& helpers = *helpers_;
  helpers.threads.reserve(static_cast<size_t>(threads_ - 1));
  try {
    for (int64_t i = 1; i < threads_; ++i) helpers.threads.emplace_back([&helpers] { helpers.help(); });
  } catch (const std::system_error&) {  // the system has no more threads: the team works with those that started
  }
}

void Team::stop() {
  if (helpers_ == nullptr) return;
  if (process_ != system::process()) {
    helpers_.release();  // the threads are in the parent process, and cannot be joined here
    return;
  }
  helpers_->stopped.store(true);
  helpers_->wakeups.fetch_add(1);
  system::wake_all(helpers_->wakeups);
  for (std::thread& thread : helpers_->threads) thread.join();
}

void Team::enter() {
  if (entered == this) {
    ++again_;
    return;
  }
  if (helpers_ == nullptr) return;
  if (process_ != system::process()) {  // of a fork, where no other thread is inside
    stop();
    start();
    busy_.store(false);
  }
  if (busy_.exchange(true)) return;
  outer_ = entered;
  entered = this;
}

void Team::leave() {
  if (entered != this || again_-- > 0) return;
  again_ = 0;
  entered = outer_;
  busy_.store(false);
}

int64_t grain_size() { return entered == nullptr ? 0 : entered->grain_size_; }

void parallel_for(int64_t parts, Team::Work work, const void* context) {
  Team* const team = entered;
  if (team == nullptr || parts < 2) {
    for (int64_t part = 0; part < parts; ++part) work(context, part);
    return;
  }
  entered = nullptr;
  struct Restore {
    Team* team;
    ~Restore() { entered = team; }
  } restore{team};
  team->helpers_->parallel_for(parts, work, context);
}

}  // namespace sharpbeam
