#include "kernels/buffer.h"

#include <cstdlib>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace quickbeam {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

void Buffer::Free::operator()(float* p) const { std::free(p); }

void Buffer::reserve(int64_t size) {
  if (size <= size_) return;
  const size_t bytes = static_cast<size_t>(size) * sizeof(float);
  const size_t align = bytes >= kHugePage ? kHugePage : kLine;
  data_.reset();  // first, so that old and new are never held together
  size_ = 0;
  void* p = std::aligned_alloc(align, (bytes + align - 1) / align * align);
  if (p == nullptr) throw std::bad_alloc();
#ifdef __linux__
  // Streaming through weights then misses the page table less. A wish: it may fail.
  if (align == kHugePage) madvise(p, bytes, MADV_HUGEPAGE);
#endif
  data_.reset(static_cast<float*>(p));
  size_ = size;
}

}  // namespace quickbeam
