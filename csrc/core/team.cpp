#include "core/team.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace sharpbeam {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMostThreads = 1024;
constexpr int kLine = 64;  // bytes of a line of a cache: what different threads write stays apart
// How long a helper looks for work before it sleeps: longer than what lies between two products, or two calls of a
// step, since waking it takes a system call and some 50 us.
constexpr auto kAwake = std::chrono::microseconds(200);
constexpr int kLooks = 32;  // between two looks at the clock
// A helper that keeps the caller waiting longer than its own share took, and this, has lost its core to others. The
// caller then goes on alone for a while, and for twice as long each time that it happens again.
constexpr auto kPatience = std::chrono::microseconds(200);
constexpr Clock::duration kLeastRest = std::chrono::milliseconds(20), kMostRest = std::chrono::seconds(2);

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The parts of a job that nobody has begun, from `front` to `back` - 1, in one word.
constexpr uint64_t span(uint64_t front, uint64_t back) { return back << 32 | front; }
constexpr uint64_t front_of(uint64_t left) { return left & 0xffffffffu; }
constexpr uint64_t back_of(uint64_t left) { return left >> 32; }

}  // namespace

// What the caller and its helpers write and read. A part is taken by a compare-and-swap on `left`, and whoever has one
// may read the job: the caller writes the next one only when `done` counts all parts of this one.
struct Team::Helpers {
  alignas(kLine) std::atomic<uint64_t> left{0};
  alignas(kLine) std::atomic<int64_t> done{0};
  alignas(kLine) std::atomic<uint32_t> bell{0};  // rung by adding one
  std::atomic<bool> asleep{false};               // whether somebody may wait for the bell
  std::atomic<bool> over{false};
  alignas(kLine) Work work = nullptr;
  const void* context = nullptr;
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  std::vector<std::thread> threads;
  Clock::time_point alone_until{};  // this and `rest` are the caller's
  Clock::duration rest = kLeastRest;

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

  void ring() {
    if (!asleep.load() || !asleep.exchange(false)) return;
    bell.fetch_add(1);
    bell.notify_all();
  }

  void sleep() {
    const uint32_t heard = bell.load();
    asleep.store(true);
    // Whoever gives work looks at `asleep` behind it, so that one of both sees what the other has written.
    const uint64_t now = left.load();
    if (front_of(now) == back_of(now) && !over.load()) bell.wait(heard);
  }

  void help() {
    sigset_t all;  // signals are the business of the threads that Python knows
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    Clock::time_point since = Clock::now();
    for (int looks = 1; !over.load(std::memory_order_relaxed); ++looks) {
      const int64_t part = take(false);
      if (part >= 0) {
        run(part);
        done.fetch_add(1, std::memory_order_release);
        looks = 0;
        since = Clock::now();
      } else if (looks % kLooks == 0 && Clock::now() - since > kAwake) {
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
      ring();
      int64_t mine = 0;
      for (int64_t part = take(true); part >= 0; part = take(true), ++mine) run(part);
      wait(parts - mine, began);
    }
    if (failed.exchange(false)) std::rethrow_exception(std::exchange(error, nullptr));
  }

  // Until the helpers have done `others` parts of the job that began at `began`.
  void wait(int64_t others, Clock::time_point began) {
    const Clock::time_point since = Clock::now();
    const Clock::time_point late = since + (since - began) + kPatience;
    bool lost = false;
    for (int looks = 1; done.load(std::memory_order_acquire) < others; ++looks) {
      relax();
      if (looks % kLooks != 0) continue;
      lost = lost || Clock::now() > late;
      if (lost) std::this_thread::yield();
    }
    if (lost) {
      alone_until = Clock::now() + rest;
      rest = std::min(2 * rest, kMostRest);
    } else if (since - alone_until > rest) {
      rest = kLeastRest;  // it went well for as long as it last rested, or longer
    }
  }
};

namespace {

thread_local constinit Team* entered = nullptr;

}  // namespace

Team::Team(int64_t threads, int64_t grain) : threads_(threads), grain_(grain) {
  if (threads < 1 || threads > kMostThreads)
    throw std::invalid_argument("threads is " + std::to_string(threads) + "; it must be from 1 to " +
                                std::to_string(kMostThreads) + ".");
  if (grain < 1) throw std::invalid_argument("grain is " + std::to_string(grain) + "; it must be at least 1.");
  start();
}

Team::~Team() { stop(); }

void Team::start() {
  process_ = getpid();
  if (threads_ == 1) return;
  helpers_ = std::make_unique<Helpers>();
  Helpers& helpers = *helpers_;
  helpers.threads.reserve(static_cast<size_t>(threads_ - 1));
  try {
    for (int64_t i = 1; i < threads_; ++i) helpers.threads.emplace_back([&helpers] { helpers.help(); });
  } catch (const std::system_error&) {  // the system has no more threads to give: those that there are will do
  }
}

void Team::stop() {
  if (helpers_ == nullptr) return;
  if (process_ != getpid()) {
    helpers_.release();  // the threads stayed in the other process, and nobody could wait for them
    return;
  }
  helpers_->over.store(true);
  helpers_->bell.fetch_add(1);
  helpers_->bell.notify_all();
  for (std::thread& thread : helpers_->threads) thread.join();
}

void Team::enter() {
  if (helpers_ == nullptr || busy_.exchange(true)) return;
  if (process_ != getpid()) {
    stop();
    start();
  }
  entered = this;
}

void Team::leave() {
  if (entered != this) return;
  entered = nullptr;
  busy_.store(false);
}

int64_t grain_size() { return entered == nullptr ? 0 : entered->grain_; }

void parallel_for(int64_t parts, Team::Work work, const void* context) {
  Team* const team = entered;
  if (team == nullptr || parts < 2) {
    for (int64_t part = 0; part < parts; ++part) work(context, part);
    return;
  }
  entered = nullptr;
  struct Again {
    Team* team;
    ~Again() { entered = team; }
  } again{team};
  team->helpers_->parallel_for(parts, work, context);
}

}  // namespace sharpbeam
