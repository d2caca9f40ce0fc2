#include "core/buffer.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <new>

namespace sharpbeam {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMost = 4 * kHugePage;   // bytes from which on a buffer has a mapping of its own
constexpr size_t kSlab = 16 * kHugePage;  // that smaller buffers share
constexpr int kMostSpare = 4;             // slabs that nobody uses
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kLeast = SIZE_MAX;  // none: all come from malloc, so that reads behind their end are seen
#else
constexpr size_t kLeast = size_t{1} << 14;  // bytes from which on a buffer goes into a slab
#endif

constexpr size_t round_to(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Memory aligned to kSlab that goes back to the system as soon as it is unmapped, where malloc would keep the holes
// between weights. On huge pages: a matrix that is read from end to end, or keys and values that lie far apart, then
// miss the page table less, which costs most in a virtual machine. What is left behind the last whole one stays small.
void* map(size_t bytes) {
  void* const found = mmap(nullptr, bytes + kSlab, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) throw std::bad_alloc();
  char* const first = static_cast<char*>(found);
  const uintptr_t at = reinterpret_cast<uintptr_t>(found);
  const size_t before = round_to(at, kSlab) - at;
  if (before > 0) munmap(first, before);
  munmap(first + before + bytes, kSlab - before);
#ifdef MADV_HUGEPAGE
  madvise(first + before, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // a wish: it may fail
#endif
  return first + before;
}

size_t whole_pages(size_t bytes) { return round_to(bytes, static_cast<size_t>(sysconf(_SC_PAGESIZE))); }

// Buffers that are too small for a mapping of their own, side by side in slabs. First fit: they are few, and a decoding
// step takes none. Some slabs that nobody uses are kept, so that what is encoded in a batch, and forgotten at its end,
// does not come back on pages that the system has to find and clear anew.
class Slabs {
 public:
  void* take(size_t bytes) {
    bytes = round_to(bytes, kLine);
    const std::lock_guard lock(mutex_);
    auto place = free_.begin();
    while (place != free_.end() && place->second < bytes) ++place;
    if (place == free_.end()) {
      place = free_.emplace(reinterpret_cast<uintptr_t>(map(kSlab)), kSlab).first;
    } else if (place->second == kSlab) {
      --spare_;
    }
    const auto [at, size] = *place;
    free_.erase(place);
    if (size > bytes) free_.emplace(at + bytes, size - bytes);
    return reinterpret_cast<void*>(at);
  }

  void give(void* p, size_t bytes) {
    const std::lock_guard lock(mutex_);
    uintptr_t at = reinterpret_cast<uintptr_t>(p);
    size_t size = round_to(bytes, kLine);
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
    if (size == kSlab && spare_ == kMostSpare) {
      munmap(reinterpret_cast<void*>(at), kSlab);
      return;
    }
    if (size == kSlab) ++spare_;
    free_.emplace(at, size);
  }

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
  std::map<uintptr_t, size_t> free_;  // bytes by address
  int spare_ = 0;                     // how many of them are whole slabs
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
  if (bytes < kLeast) return std::free(p);
  if (bytes < kMost) return slabs().give(p, bytes);
  munmap(p, whole_pages(bytes));
}

void Buffer::reserve(int64_t size) {
  if (size <= size_) return;
  const size_t bytes = static_cast<size_t>(size) * sizeof(float);
  data_.reset();  // first, so that old and new are never held together
  size_ = 0;
  void* p = nullptr;
  if (bytes >= kLeast) {
    p = bytes < kMost ? slabs().take(bytes) : map(whole_pages(bytes));
  } else if ((p = std::aligned_alloc(kLine, round_to(bytes, kLine))) == nullptr) {
    throw std::bad_alloc();
  }
  data_ = {static_cast<float*>(p), Free{bytes}};
  size_ = size;
}

}  // namespace sharpbeam
