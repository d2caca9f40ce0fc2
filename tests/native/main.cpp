// The native tests: sharpbeam_native_tests [-l] [FILTER...] runs the tests whose name contains one of the filters (all
// without a filter), -l lists them. Prints failed checks; the exit status is 1 if there are any, or no test ran.
// -DSHARPBEAM_SANITIZE=ON builds them with sanitizers.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"

namespace {

constexpr uint64_t kSeed = 0x9e3779b97f4a7c15ull;
constexpr int kMaxReports = 20;

Test* tests = nullptr;
const char* current = "";
int checks = 0, failures = 0;
uint64_t state = kSeed;

uint64_t next() {  // splitmix64
  uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

}  // namespace

Test::Test(const char* test_name, void (*function)()) : name(test_name), run(function), next(tests) { tests = this; }

void check(bool holds, const char* what, const char* table, int64_t size) {
  ++checks;
  if (holds) return;
  if (++failures <= kMaxReports)
    std::printf("FAILED in %s: %s (table %s, size %lld)\n", current, what, table, static_cast<long long>(size));
}

float draw() { return static_cast<float>(next() >> 40) * 0x1p-23f - 1.0f; }

void fill(Guarded<float>& array, float scale) {
  for (int64_t i = 0; i < array.size(); ++i) array[i] = scale * draw();
}

int64_t draw_size(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1));
}

bool same(const float* a, const float* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const bool both_nan = a[i] != a[i] && b[i] != b[i];
    if (!both_nan && std::memcmp(a + i, b + i, sizeof(float)) != 0) return false;
  }
  return true;
}

bool same(const int32_t* a, const int32_t* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

int main(int count, char** arguments) {
  const std::vector<std::string> given(arguments + 1, arguments + count);
  const bool list = std::find(given.begin(), given.end(), "-l") != given.end();
  std::vector<Test*> chosen;
  for (Test* test = tests; test != nullptr; test = test->next) {
    bool wanted = given.empty() || given == std::vector<std::string>{"-l"};
    for (const std::string& filter : given)
      wanted = wanted || std::string(test->name).find(filter) != std::string::npos;
    if (wanted) chosen.push_back(test);
  }
  std::sort(chosen.begin(), chosen.end(), [](Test* a, Test* b) { return std::strcmp(a->name, b->name) < 0; });
  for (Test* test : chosen) {
    if (list) {
      std::printf("%s\n", test->name);
      continue;
    }
    current = test->name;
    state = kSeed;
    test->run();
  }
  if (!list) std::printf("%zu tests, %d checks, %d failed\n", chosen.size(), checks, failures);
  return failures == 0 && !chosen.empty() ? 0 : 1;
}
