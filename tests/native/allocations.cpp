// Counts allocations, by malloc and its relatives and operator new, to check that a warm step makes none.
#include "allocations.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "check.h"
#include "core/buffer.h"
#include "kernels/table.h"
#include "output/exact.h"
#include "output/scan.h"

namespace {
std::atomic<int64_t> count{0};
}

int64_t allocations() { return count; }

#if defined(__SANITIZE_ADDRESS__)

// The address sanitizer's allocator reports each call. (Declared here because g++ ships the function, but not always
// the header sanitizer/allocator_interface.h.)
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, size_t),
                                                         void (*on_free)(const volatile void*));
namespace {
[[maybe_unused]] const bool counting = [] {
  __sanitizer_install_malloc_and_free_hooks([](const volatile void*, size_t) { ++count; }, [](const volatile void*) {});
  return true;
}();
}  // namespace
const bool kCountsAllocations = true;

#elif defined(__GLIBC__) && !defined(__SANITIZE_THREAD__)  // which has its own definitions

// These definitions replace the C library's, which can still be called by these names.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t number, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t align, size_t size);

void* malloc(size_t size) {
  ++count;
  return __libc_malloc(size);
}
void* calloc(size_t number, size_t size) {
  ++count;
  return __libc_calloc(number, size);
}
void* realloc(void* old, size_t size) {
  ++count;
  return __libc_realloc(old, size);
}
void* aligned_alloc(size_t align, size_t size) {
  ++count;
  return __libc_memalign(align, size);
}
int posix_memalign(void** to, size_t align, size_t size) {
  ++count;
  *to = __libc_memalign(align, size);
  return *to == nullptr ? ENOMEM : 0;
}
}
const bool kCountsAllocations = true;

#else
const bool kCountsAllocations = false;
#endif

namespace {

using namespace sharpbeam;

// The counter sees every way in which the core allocates; otherwise no check of a warm step could fail.
TEST(allocations_are_counted) {
  if (!kCountsAllocations) return;
  Buffer buffer;
  std::vector<int32_t> grows;
  CHECK(allocated([&] { buffer.reserve(100); }) > 0, "any", 0);
  CHECK(allocated([&] { buffer.reserve(100); }) == 0, "any", 0);
  CHECK(allocated([&] { grows.push_back(1); }) > 0, "any", 0);
  void* volatile seen = nullptr;  // or the compiler removes calloc and free
  CHECK(allocated([&] { seen = std::calloc(1, 8); }) > 0, "any", 0);
  std::free(seen);
}

// Layers for growing and shrinking beams, as in a run; the first one is the widest and warms up.
TEST(allocations_of_layers) {
  constexpr int64_t kVocab = 300, kDim = 20, kMost = 12, k = 8;
  Guarded<float> weight(kVocab * kDim), bias(kVocab), hidden(kMost * kDim), log_prob(kMost * k);
  fill(weight, 1.0f), fill(bias, 1.0f), fill(hidden, 1.0f);
  Guarded<int32_t> token(kMost * k);
  for (const char* const* name = kernel_names(); *name != nullptr; ++name) {
    const Array shared(Array(), weight.get());
    const ExactLayer exact(shared, Array(Array(), bias.get()), kVocab, kDim, kernels(*name), false);
    const ScanLayer scan(shared, bias.get(), kVocab, kDim, kernels(*name), 1.0f);
    for (const int64_t rows : {kMost, int64_t{1}, int64_t{4}, kMost}) {
      const int64_t made = allocated([&] {
        exact.topk({hidden.get(), rows}, k, log_prob.get(), token.get());
        scan.topk({hidden.get(), rows}, k, log_prob.get(), token.get());
      });
      CHECK(made == 0 || (name == kernel_names() && rows == kMost), *name, rows);
    }
  }
}

}  // namespace
