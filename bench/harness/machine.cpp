// The ceilings of this machine: read bandwidth by the size of the set that is read again and again, and peak rates of
// multiply-accumulate. Usage: machine THREADS SECONDS [SET_MB ...]. Prints one JSON object.
//
// Every thread reads or computes on its own; a figure is the sum over the threads. Each is measured five times for
// SECONDS, and the best counts, since nothing can beat a ceiling. An instruction set that
// this machine (or this build) lacks prints null.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX2__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif
typedef uint64_t Words __attribute__((vector_size(kBytes)));
typedef float Floats __attribute__((vector_size(kBytes)));

constexpr int kChains = 12;  // more than latency x throughput of the units, fewer than the registers
constexpr int kRepeats = 5;
constexpr int64_t kBlock = 20000;  // rounds between two looks at the clock

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Keeps a value in a register and unknown to the compiler, so that nothing is hoisted out of a loop.
template <typename T>
inline void opaque(T& x) {
#if defined(__x86_64__)
  asm volatile("" : "+x"(x));
#elif defined(__aarch64__)
  asm volatile("" : "+w"(x));
#endif
}

// Runs `work` on every thread for about `seconds`; `work(thread)` returns the units of work that it did.
template <typename Work>
double rate(int threads, double seconds, Work work) {
  std::atomic<int> waiting{threads};
  std::vector<double> rates(threads);
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      work(t);  // touches the memory, wakes the units
      --waiting;
      while (waiting.load() > 0) std::this_thread::yield();
      const double began = now();
      double done = 0, took = 0;
      do {
        done += work(t);
        took = now() - began;
      } while (took < seconds);
      rates[t] = done / took;
    });
  }
  for (auto& worker : workers) worker.join();
  double sum = 0;
  for (double r : rates) sum += r;
  return sum;
}

template <typename Work>
std::vector<double> repeated(int threads, double seconds, Work work) {
  std::vector<double> rates;
  for (int i = 0; i < kRepeats; ++i) rates.push_back(rate(threads, seconds, work));
  std::sort(rates.begin(), rates.end());
  return rates;
}

// Bytes a second, in GB/s, when `threads` read a set of `megabytes` together, each a part of its own.
double bandwidth(int threads, double seconds, int64_t megabytes) {
  const int64_t bytes = (megabytes << 20) / threads / (8 * kBytes) * (8 * kBytes);
  std::vector<char*> parts(threads);
  for (char*& part : parts) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::exit((std::perror("mmap"), 1));
#if defined(MADV_HUGEPAGE)
    madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    part = static_cast<char*>(memory);
    for (int64_t i = 0; i < bytes; i += 8) *reinterpret_cast<uint64_t*>(part + i) = static_cast<uint64_t>(i);
  }
  const auto rates = repeated(threads, seconds, [&](int t) {
    Words sums[8] = {};
    const Words* from = reinterpret_cast<const Words*>(parts[t]);
    const int64_t rounds = std::max<int64_t>(1, (4 << 20) / bytes);  // a clock call costs nothing next to 4 MB
    for (int64_t work = 0; work < rounds; ++work) {
      for (int64_t i = 0; i < bytes / kBytes; i += 8) {
        for (int j = 0; j < 8; ++j) sums[j] += from[i + j];
      }
    }
    for (auto& sum : sums) opaque(sum);
    return static_cast<double>(rounds * bytes) / 1e9;
  });
  for (char* part : parts) munmap(part, bytes);
  return rates.back();
}

// Best rate in GMAC/s of `step(accumulator, a, b)`, which does `macs` multiply-accumulates on one register.
template <typename Vector, typename Step>
double peak(int threads, double seconds, int macs, Step step) {
  const auto rates = repeated(threads, seconds, [&](int) {
    Vector sums[kChains] = {}, a = {}, b = {};
    opaque(a);
    opaque(b);
    for (int64_t i = 0; i < kBlock; ++i) {
      for (int j = 0; j < kChains; ++j) {
        sums[j] = step(sums[j], a, b);
        opaque(sums[j]);
      }
      opaque(a);
    }
    return static_cast<double>(kBlock) * kChains * macs / 1e9;
  });
  return rates.back();
}

double peak_f32(int threads, double seconds) {
  return peak<Floats>(threads, seconds, kBytes / 4, [](Floats s, Floats a, Floats b) { return s + a * b; });
}

double peak_int16(int threads, double seconds) {
#if defined(__AVX512VNNI__)
  return peak<__m512i>(threads, seconds, 32,
                       [](__m512i s, __m512i a, __m512i b) { return _mm512_dpwssd_epi32(s, a, b); });
#elif defined(__AVX2__)
  return peak<__m256i>(threads, seconds, 16, [](__m256i s, __m256i a, __m256i b) {
    opaque(a);
    return _mm256_add_epi32(s, _mm256_madd_epi16(a, b));
  });
#else
  return static_cast<void>(threads), static_cast<void>(seconds), -1;
#endif
}

double peak_int8(int threads, double seconds) {
#if defined(__AVX512VNNI__)
  return peak<__m512i>(threads, seconds, 64,
                       [](__m512i s, __m512i a, __m512i b) { return _mm512_dpbusd_epi32(s, a, b); });
#elif defined(__AVX2__)
  return peak<__m256i>(threads, seconds, 32, [](__m256i s, __m256i a, __m256i b) {
    opaque(a);
    const __m256i pairs = _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1));
    return _mm256_add_epi32(s, pairs);
  });
#else
  return static_cast<void>(threads), static_cast<void>(seconds), -1;
#endif
}

const char* integer_unit() {
#if defined(__AVX512VNNI__)
  return "avx512_vnni";
#elif defined(__AVX2__)
  return "avx2";
#else
  return "none";
#endif
}

void print_figure(const char* name, double value, const char* after) {
  if (value < 0) {
    std::printf("\"%s\": null%s", name, after);
  } else {
    std::printf("\"%s\": %.1f%s", name, value, after);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const int threads = count > 1 ? std::atoi(arguments[1]) : 0;
  const double seconds = count > 2 ? std::atof(arguments[2]) : 0;
  if (threads < 1 || seconds <= 0) {
    std::fprintf(stderr, "usage: %s THREADS SECONDS [SET_MB ...]\n", arguments[0]);
    return 2;
  }
  std::printf("{\"threads\": %d, \"integer_unit\": \"%s\", \"read_gb_s\": {", threads, integer_unit());
  for (int i = 3; i < count; ++i) {
    const int64_t megabytes = std::atoll(arguments[i]);
    if (megabytes < 1) return std::fprintf(stderr, "set size '%s' must be 1 MB or more\n", arguments[i]), 2;
    print_figure(std::to_string(megabytes).c_str(), bandwidth(threads, seconds, megabytes), i + 1 < count ? ", " : "");
  }
  std::printf("}, \"gmac_s\": {");
  print_figure("f32", peak_f32(threads, seconds), ", ");
  print_figure("int16", peak_int16(threads, seconds), ", ");
  print_figure("int8", peak_int8(threads, seconds), "}}\n");
  return 0;
}
