// Teams: each part runs once, for any number of callers; errors arrive; nothing is allocated; a fork has its own
// helpers; and matmuls have the same bits with and without a team.
#include "core/team.h"

#ifndef _WIN32
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "allocations.h"
#include "check.h"
#include "linear/linear.h"
#include "model.h"
#include "output/exact.h"
#include "output/scan.h"

namespace {

using namespace sharpbeam;

struct Entered {
  explicit Entered(Team& entered) : team(entered) { team.enter(); }
  ~Entered() { team.leave(); }
  Team& team;
};

// Whether `jobs` jobs of as many parts as `most` or fewer do each part once.
bool each_part_once(int64_t jobs, int64_t most) {
  std::vector<int> times(static_cast<size_t>(most));  // not atomic: the caller sees the writes of a finished job
  for (int64_t job = 0; job < jobs; ++job) {
    const int64_t parts = job % (most + 1);
    std::fill(times.begin(), times.end(), 0);
    parallel_for(parts, [&](int64_t part) { ++times[static_cast<size_t>(part)]; });
    for (int64_t part = 0; part < most; ++part)
      if (times[static_cast<size_t>(part)] != (part < parts ? 1 : 0)) return false;
  }
  return true;
}

TEST(team_parts) {
  CHECK(each_part_once(20, 9), "none", 1);
  for (const int64_t threads : {1, 2, 3, 5}) {
    Team team(threads);
    CHECK(grain_size() == 0, "none", threads);
    const Entered entered(team);
    CHECK((grain_size() != 0) == (threads > 1), "none", threads);
    CHECK(each_part_once(2000, 9), "none", threads);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the helpers sleep
    CHECK(each_part_once(20, 9), "none", threads);
    CHECK(allocated([&] { parallel_for(7, [](int64_t) {}); }) == 0, "none", threads);
  }
  CHECK(tests::refused([] { Team team(0); }, "threads is 0"), "none", 0);
  CHECK(tests::refused([] { Team team(1025); }, "threads is 1025"), "none", 1025);
  CHECK(tests::refused([] { Team team(2, 0); }, "grain_size is 0"), "none", 0);
}

// Several teams, and several threads that enter the same one.
TEST(team_callers) {
  Team wanted(3);
  std::atomic<int> good{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      Team own(2);
      for (int repeat = 0; repeat < 20; ++repeat) {
        Team& team = repeat % 2 ? own : wanted;
        const Entered entered(team);
        if (each_part_once(40, 6)) ++good;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(good == 80, "none", 4);
}

// The inner one of two teams serves, told by its grain size, and the outer one again after it.
TEST(team_inside_another) {
  Team outer(2, 3), inner(2, 5);
  {
    const Entered first(outer);
    {
      const Entered second(inner);
      const Entered again(inner), busy(outer);
      CHECK(grain_size() == 5, "none", 2);
    }
    CHECK(grain_size() == 3, "none", 2);
  }
  CHECK(grain_size() == 0, "none", 2);
  const Entered once_more(outer);
  CHECK(grain_size() == 3, "none", 2);
}

TEST(team_errors_and_nesting) {
  Team team(3);
  const Entered entered(team);
  for (int64_t bad = 0; bad < 6; ++bad) {
    std::atomic<int> done{0};
    const auto work = [&](int64_t part) {
      ++done;
      if (part == bad) throw std::invalid_argument("part");
    };
    CHECK(tests::refused([&] { parallel_for(6, work); }, "part") && done == 6, "none", bad);
    CHECK(each_part_once(3, 5), "none", bad);
  }
  std::atomic<int> inner{0};
  parallel_for(4, [&](int64_t) { parallel_for(5, [&](int64_t) { ++inner; }); });
  CHECK(inner == 20, "none", 4);
}

#ifndef _WIN32  // where clock() is the time of day
TEST(team_idle_helpers_take_no_time) {
  Team team(3);
  const Entered entered(team);
  each_part_once(10, 5);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const std::clock_t before = std::clock();  // of all threads
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  CHECK(std::clock() - before < CLOCKS_PER_SEC / 50, "none", 3);  // two that spin take 120 ms
}
#endif

// A helper that keeps the caller waiting is not used for a while, and then it is again.
TEST(team_pause_after_a_late_helper) {
  using std::chrono::milliseconds;
  Team team(2);
  const Entered entered(team);
  const std::thread::id caller = std::this_thread::get_id();
  const auto helped = [&](milliseconds nap, milliseconds patience) {
    std::atomic<bool> begun{false};
    parallel_for(2, [&](int64_t) {
      if (std::this_thread::get_id() != caller) {
        begun = true;
        std::this_thread::sleep_for(nap);
      }
      const auto until = std::chrono::steady_clock::now() + patience;
      while (!begun && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    });
    return begun.load();
  };
  // More than one try, since a busy machine can hold up the caller as well.
  const auto comes = [&](milliseconds nap) {
    for (int trial = 0; trial < 20; ++trial) {
      if (helped(nap, milliseconds(200))) return true;
      std::this_thread::sleep_for(milliseconds(30));
    }
    return false;
  };
  bool rested = false;
  for (int trial = 0; trial < 5 && !rested; ++trial) {
    CHECK(comes(milliseconds(20)), "none", trial);
    rested = !helped(milliseconds(0), milliseconds(1));
  }
  CHECK(rested, "none", 0);
  CHECK(comes(milliseconds(0)), "none", 1);
}

// A thread sanitizer does not follow a process with threads into its children; Windows has no fork.
#if !defined(__SANITIZE_THREAD__) && !defined(_WIN32)
TEST(team_fork) {
  auto team = std::make_unique<Team>(3);
  {
    const Entered entered(*team);
    each_part_once(10, 5);
  }
  const pid_t child = fork();
  if (child == 0) {
    bool good = true;
    for (int repeat = 0; repeat < 2; ++repeat) {
      const Entered entered(*team);
      good = each_part_once(100, 5) && good;
    }
    team.reset();
    _exit(good ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0, "none", child);
  const Entered entered(*team);
  CHECK(each_part_once(100, 5), "none", 3);
}
#endif

TEST(team_linear_layers) {
  for (const char* const* name = kernel_names(); *name != nullptr; ++name) {
    for (const ComputeType type : {ComputeType::float32, ComputeType::int16, ComputeType::int8}) {
      for (int repeat = 0; repeat < 12; ++repeat) {
        const int64_t in = draw_size(1, 70), out = draw_size(1, 700), rows = draw_size(1, 9);
        Guarded<float> weight(in * out), bias(out), x(rows * in), alone(rows * out), shared(rows * out);
        fill(weight, 1.0f), fill(bias, 1.0f), fill(x, 1.0f);
        const Linear linear(type, weight.get(), out, in, in, bias.get());
        LinearInput scratch;
        linear.apply(kernels(*name), x.get(), in, alone.get(), out, rows, scratch);
        Team team(3, 1);
        const Entered entered(team);
        linear.apply(kernels(*name), x.get(), in, shared.get(), out, rows, scratch);
        CHECK(same(alone.get(), shared.get(), rows * out), *name, out);
      }
    }
  }
}

// The results of output layers, with and without a team.
TEST(team_output_layers) {
  constexpr int64_t kVocab = 1200, kDim = 20, kMost = 60, k = 6;
  Guarded<float> weight(kVocab * kDim), bias(kVocab), hidden(kMost * kDim);
  fill(weight, 1.0f), fill(bias, 1.0f), fill(hidden, 1.0f);
  hidden[3] = 1e30f;  // a row that falls back to exact logits
  Guarded<float> log_prob(kMost * k), other(kMost * k);
  Guarded<int32_t> token(kMost * k), chosen(kMost * k);
  Team team(3, 1);
  for (const char* const* name = kernel_names(); *name != nullptr; ++name) {
    const Array shared(Array(), weight.get());
    const ExactLayer exact(shared, Array(Array(), bias.get()), kVocab, kDim, kernels(*name), false);
    const ScanLayer scan(shared, bias.get(), kVocab, kDim, kernels(*name), 1.0f);
    for (const RowLayer* layer : {static_cast<const RowLayer*>(&exact), static_cast<const RowLayer*>(&scan)}) {
      for (const int64_t rows : {int64_t{1}, int64_t{5}, kMost}) {
        layer->topk({hidden.get(), rows}, k, log_prob.get(), token.get());
        for (int repeat = 0; repeat < 5; ++repeat) {
          const Entered entered(team);
          layer->topk({hidden.get(), rows}, k, other.get(), chosen.get());
          CHECK(same(log_prob.get(), other.get(), rows * k), *name, rows);
          CHECK(same(token.get(), chosen.get(), rows * k), *name, rows);
        }
      }
    }
  }
}

}  // namespace
