// Products of a few rows: our kernels in each type against sgemm of a BLAS. Usage: products BLAS ISA ROUNDS SHAPE ...,
// where BLAS is a shared library with cblas_sgemm (or a name that ends so) and a SHAPE is OUTxIN. Prints a line of JSON
// for each shape and number of rows: nanoseconds of one product by contender, a list over the rounds.
//
// All contenders of a shape take turns in every round. The weights are as many copies as make 16 MB of floats, one used
// after the other, so that they come from where a model's do. All contenders together are larger than the last cache,
// so each runs until its weights have settled there, as those of the ceilings have. Inputs are rounded in the time
// taken.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "linear/linear.h"

namespace {

using sharpbeam::ComputeType;
using sharpbeam::Kernels;
using sharpbeam::Linear;

// cblas_sgemm: order, whether a and b are transposed, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc.
using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);

constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
constexpr int64_t kFloatBytes = 16 << 20;  // of all copies
constexpr int kMostRows = 16;
constexpr double kWarm = 2e-3;   // seconds that a contender runs in a round before it is timed
constexpr double kBurst = 4e-4;  // seconds that it is timed

// Of this thread's own time: what others take of the processor does not count.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Sgemm load_sgemm(const char* library) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  for (const char* symbol : {"cblas_sgemm", "scipy_cblas_sgemm"}) {
    if (void* found = handle != nullptr ? dlsym(handle, symbol) : nullptr) return reinterpret_cast<Sgemm>(found);
  }
  std::fprintf(stderr, "%s is no library with cblas_sgemm\n", library);
  std::exit(2);
}

std::vector<float> numbers(int64_t count, uint64_t seed) {
  std::vector<float> result(count);
  for (float& x : result) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    x = static_cast<float>(seed >> 40) * 0x1p-23f - 1.0f;
  }
  return result;
}

struct Contender {
  const char* name;
  std::function<void(int64_t copy, float* y, int64_t rows)> run;
  std::vector<double> times;
};

// Largest distance of y from the first contender's, as a share of its largest size.
double distance(const std::vector<float>& truth, const std::vector<float>& y, int64_t size) {
  float most = 0, far = 0;
  for (int64_t i = 0; i < size; ++i) {
    most = std::max(most, std::fabs(truth[i]));
    far = std::max(far, std::fabs(truth[i] - y[i]));
  }
  return far / most;
}

void measure(Sgemm sgemm, const Kernels& table, int rounds, int64_t out, int64_t in) {
  const int64_t copies = std::max<int64_t>(1, kFloatBytes / (out * in * 4));
  const std::vector<float> weight = numbers(out * in, 1), x = numbers(kMostRows * in, 2);
  std::vector<float> turned(out * in);
  for (int64_t n = 0; n < out; ++n)
    for (int64_t k = 0; k < in; ++k) turned[k * out + n] = weight[n * in + k];
  std::vector<std::vector<float>> plain(copies, weight), across(copies, turned);
  std::vector<Linear> floats, shorts, bytes;
  for (int64_t i = 0; i < copies; ++i) {
    floats.emplace_back(ComputeType::float32, weight.data(), out, in, in, nullptr);
    shorts.emplace_back(ComputeType::int16, weight.data(), out, in, in, nullptr);
    bytes.emplace_back(ComputeType::int8, weight.data(), out, in, in, nullptr);
  }
  sharpbeam::LinearInput scratch;
  const int o = static_cast<int>(out), n = static_cast<int>(in);
  const auto ours = [&](std::vector<Linear>& from) {
    return [&](int64_t copy, float* y, int64_t rows) { from[copy].apply(table, x.data(), in, y, out, rows, scratch); };
  };
  const auto blas = [&](std::vector<std::vector<float>>& from, int order, int width) {
    return [&, order, width](int64_t copy, float* y, int64_t rows) {
      sgemm(kRowMajor, kPlain, order, static_cast<int>(rows), o, n, 1.0f, x.data(), n, from[copy].data(), width, 0.0f,
            y, o);
    };
  };
  std::vector<Contender> all = {{"blas", blas(plain, kTransposed, n), {}},
                                {"blas_turned", blas(across, kPlain, o), {}},
                                {"float32", ours(floats), {}},
                                {"int16", ours(shorts), {}},
                                {"int8", ours(bytes), {}}};
  for (int64_t rows = 1; rows <= kMostRows; ++rows) {
    std::printf("{\"out\": %lld, \"in\": %lld, \"rows\": %lld, \"copies\": %lld, \"off\": {",
                static_cast<long long>(out), static_cast<long long>(in), static_cast<long long>(rows),
                static_cast<long long>(copies));
    std::vector<float> truth(rows * out), y(rows * out);
    all.front().run(0, truth.data(), rows);
    for (Contender& one : all) {
      one.run(0, y.data(), rows);
      std::printf("\"%s\": %.2e%s", one.name, distance(truth, y, rows * out), &one == &all.back() ? "}, " : ", ");
      one.times.clear();
    }
    for (int round = 0; round < rounds; ++round) {
      for (Contender& one : all) {
        for (const double begun = now(); now() - begun < kWarm;) {
          for (int64_t i = 0; i < copies; ++i) one.run(i, y.data(), rows);
        }
        int64_t done = 0;
        const double began = now();
        double took = 0;
        do {
          for (int64_t i = 0; i < copies; ++i) one.run(i, y.data(), rows);
          done += copies;
          took = now() - began;
        } while (took < kBurst);
        one.times.push_back(took / static_cast<double>(done));
      }
    }
    std::printf("\"ns\": {");
    for (Contender& one : all) {
      std::printf("\"%s\": [", one.name);
      for (const double& time : one.times) std::printf("%s%.0f", &time == one.times.data() ? "" : ", ", 1e9 * time);
      std::printf("]%s", &one == &all.back() ? "}}\n" : ", ");
    }
    std::fflush(stdout);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) return std::fprintf(stderr, "usage: %s BLAS ISA ROUNDS OUTxIN ...\n", arguments[0]), 2;
  const Sgemm sgemm = load_sgemm(arguments[1]);
  const std::string isa = arguments[2];
  const Kernels& table = isa == "auto" ? sharpbeam::kernels() : sharpbeam::kernels(isa.c_str());
  for (int i = 4; i < count; ++i) {
    long long out = 0, in = 0;
    if (std::sscanf(arguments[i], "%lldx%lld", &out, &in) != 2 || out < 1 || in < 1)
      return std::fprintf(stderr, "shape '%s' must be OUTxIN\n", arguments[i]), 2;
    measure(sgemm, table, std::atoi(arguments[3]), out, in);
  }
  return 0;
}
