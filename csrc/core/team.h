// A team of threads that share the work of one caller, so that a single sentence is faster on several cores.
//
// A job is a number of parts that may run in any order. The caller takes them from the first on, the helpers from the
// last, and the caller waits only for parts that a helper has begun. So a helper without a free core costs nothing,
// after one that was preempted the caller works alone for a while, and each of two threads keeps to its half of the
// weights, which stay in its core's cache. A part must compute the same whichever thread runs it, so no result depends
// on the number of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace sharpbeam {

constexpr int64_t kGrainSize = int64_t{1} << 16;  // about 3 us of one thread

class Team {
 public:
  // The caller and `threads` - 1 helpers, or as many as the system can start; they sleep until there is work.
  // `grain_size` is the smallest part of a matmul worth handing over, as linear/panels.h counts its cost. Throws
  // std::invalid_argument unless 1 <= threads <= 1024 and grain_size >= 1.
  explicit Team(int64_t threads, int64_t grain_size = kGrainSize);
  ~Team();
  Team(const Team&) = delete;

  int64_t threads() const { return threads_; }

  // From enter to leave, parallel_for in this thread uses the helpers. A team serves one thread at a time: another one
  // that enters works alone. Of teams that are entered one inside the other the inner one serves. In a forked process
  // the team starts its own helpers.
  void enter();
  void leave();

  using Work = void (*)(const void* context, int64_t part);

 private:
  friend void parallel_for(int64_t parts, Work work, const void* context);
  friend int64_t grain_size();
  struct Helpers;
  void start();
  void stop();

  int64_t threads_, grain_size_;
  std::atomic<bool> busy_{false};
  int64_t again_ = 0;      // times that its thread entered it once more
  Team* outer_ = nullptr;  // that its thread had entered before
  int64_t process_ = 0;    // the process of the helpers
  std::unique_ptr<Helpers> helpers_;
};

// Calls work(context, part) for each part from 0 to parts - 1, in the threads of the team that this thread has entered,
// else in this thread; returns when all are done. Allocates nothing. An exception of a part is rethrown here when all
// parts are done. A part that calls parallel_for itself works alone there.
void parallel_for(int64_t parts, Team::Work work, const void* context);

// The grain size of the team that this thread has entered; 0 without one, where splitting has no use.
int64_t grain_size();

template <typename Work>
void parallel_for(int64_t parts, const Work& work) {
  parallel_for(parts, [](const void* context, int64_t part) { (*static_cast<const Work*>(context))(part); }, &work);
}

}  // namespace sharpbeam
