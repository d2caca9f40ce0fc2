#include "kernels/buffer.h"

#include <pthread.h>

#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace quickbeam {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSlab = 4 * kHugePage;  // that buffers of less than a huge page share
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kLeast = kHugePage;  // none: each has its own memory, so that reads behind its end are seen
#else
constexpr size_t kLeast = size_t{1} << 14;  // bytes from which on a buffer goes into a slab
#endif

constexpr size_t round_to(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// On huge pages: a matrix that is read from end to end, or keys and values that lie far apart, then miss the page table
// less, which costs most in a virtual machine.
void* allocate(size_t bytes, size_t align) {
  void* p = std::aligned_alloc(align, round_to(bytes, align));
  if (p == nullptr) throw std::bad_alloc();
#ifdef __linux__
  if (align >= kHugePage) madvise(p, round_to(bytes, kHugePage), MADV_HUGEPAGE);  // a wish: it may fail
#endif
  return p;
}

// Buffers that are too small for a huge page of their own, side by side in slabs. First fit: they are few, and a
// decoding step takes none.
class Slabs {
 public:
  void* take(size_t bytes) {
    bytes = round_to(bytes, kLine);
    const std::lock_guard lock(mutex_);
    auto place = free_.begin();
    while (place != free_.end() && place->second < bytes) ++place;
    if (place == free_.end()) {
      place = free_.emplace(reinterpret_cast<uintptr_t>(allocate(kSlab, kSlab)), kSlab).first;
    }
    const auto [at, size] = *place;
    used_.emplace(at, bytes);
    free_.erase(place);
    if (size > bytes) free_.emplace(at + bytes, size - bytes);
    return reinterpret_cast<void*>(at);
  }

  // Whether `p` was one of them.
  bool give(void* p) {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(reinterpret_cast<uintptr_t>(p));
    if (found == used_.end()) return false;
    uintptr_t at = found->first;
    size_t size = found->second;
    used_.erase(found);
    auto next = free_.lower_bound(at);
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == at && at % kSlab != 0) {
        at = before->first;
        size += before->second;
        free_.erase(before);
      }
    }
    if (next != free_.end() && at + size == next->first && next->first % kSlab != 0) {
      size += next->second;
      free_.erase(next);
    }
    if (size == kSlab) {
      std::free(reinterpret_cast<void*>(at));
    } else {
      free_.emplace(at, size);
    }
    return true;
  }

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
  std::map<uintptr_t, size_t> free_, used_;  // bytes by address
};

// Never destroyed, since threads and static objects give their buffers back when the process ends. A process that is
// forked finds it unlocked, as malloc is.
Slabs& slabs() {
  static Slabs& all = []() -> Slabs& {
    static Slabs& made = *new Slabs;
    pthread_atfork([] { made.lock(); }, [] { made.unlock(); }, [] { made.unlock(); });
    return made;
  }();
  return all;
}

}  // namespace

void Buffer::Free::operator()(float* p) const {
  if (!slabs().give(p)) std::free(p);
}

void Buffer::reserve(int64_t size) {
  if (size <= size_) return;
  const size_t bytes = static_cast<size_t>(size) * sizeof(float);
  data_.reset();  // first, so that old and new are never held together
  size_ = 0;
  void* p = nullptr;
  if (bytes >= kHugePage) {
    p = allocate(bytes, kHugePage);
  } else {
    p = bytes >= kLeast ? slabs().take(bytes) : allocate(bytes, kLine);
  }
  data_.reset(static_cast<float*>(p));
  size_ = size;
}

}  // namespace quickbeam
