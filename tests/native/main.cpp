// Native tests: every table against the scalar one, bit for bit, on arrays that end at a forbidden page. Built with
// sanitizers by -DSHARPBEAM_SANITIZE=ON. Prints what fails; the exit status is 1 if anything did.
#include <cstdio>
#include <cstring>

#include "check.h"

namespace {
int checks = 0, failures = 0;
uint64_t state = 0x9e3779b97f4a7c15ull;

uint64_t next() {  // splitmix64
  uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
}  // namespace

void check(bool holds, const char* what, const char* table, int64_t size) {
  ++checks;
  if (holds) return;
  if (++failures <= 20) std::printf("FAILED: %s (table %s, size %lld)\n", what, table, static_cast<long long>(size));
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

int main() {
  test_allocations();
  test_kernels();
  test_team();
  test_output_layers();
  test_screen();
  test_shortlist();
  test_search();
  test_recurrent();
  test_lstm_attention();
  test_transformer();
  test_lstm_lm();
  std::printf("%d checks, %d failed\n", checks, failures);
  return failures == 0 && checks > 0 ? 0 : 1;
}
