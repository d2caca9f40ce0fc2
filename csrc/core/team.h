// Threads that share the work of one caller: what makes a single sentence faster on several cores.
//
// A job is a number of parts that may be done in any order. The caller takes them from the front, the helpers from the
// back, and the caller waits only for parts that a helper has begun: a helper that the machine has no core for costs
// nothing, one that loses its core in the middle is left alone for a while, and two threads keep to their halves of the
// weights, which stay in the caches of their cores. What a part computes must not depend on who does it, so no answer
// depends on the number of threads.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace sharpbeam {

constexpr int64_t kGrain = int64_t{1} << 16;  // some 3 us of a thread

class Team {
 public:
  // The caller and `threads` - 1 helpers, or as many as the system gives; they sleep until there is work. `grain` is
  // the least part of a product that is worth handing over, as panels.h counts it. Throws std::invalid_argument unless
  // 1 <= threads <= 1024 and grain >= 1.
  explicit Team(int64_t threads, int64_t grain = kGrain);
  ~Team();
  Team(const Team&) = delete;

  int64_t threads() const { return threads_; }

  // From enter to leave, `share` in this thread is shared with the helpers. A team serves one thread at a time: another
  // that enters, or the same again, goes on alone. In a process that was forked from the team's it starts afresh.
  void enter();
  void leave();

  using Work = void (*)(const void* context, int64_t part);

 private:
  friend void parallel_for(int64_t parts, Work work, const void* context);
  friend int64_t grain_size();
  struct Helpers;
  void start();
  void stop();

  int64_t threads_, grain_;
  std::atomic<bool> busy_{false};
  pid_t process_ = 0;  // that the helpers run in
  std::unique_ptr<Helpers> helpers_;
};

// Calls work(context, part) for each part from 0 to parts - 1, by the team that this thread has entered or by this
// thread alone; returns when all are done. Allocates nothing. An exception in a part is thrown here, behind the others.
// A part that shares work itself does that alone.
void parallel_for(int64_t parts, Team::Work work, const void* context);

// That of the team that this thread has entered; 0 where it is alone, and parts have no use.
int64_t grain_size();

template <typename Work>
void parallel_for(int64_t parts, const Work& work) {
  parallel_for(parts, [](const void* context, int64_t part) { (*static_cast<const Work*>(context))(part); }, &work);
}

}  // namespace sharpbeam
