#include "core/buffer.h"

#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <new>

#include "core/system.h"

namespace sharpbeam {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMinMapping = 4 * kHugePage;  // bytes from which a buffer has its own mapping
constexpr size_t kSlab = 16 * kHugePage;       // a mapping that smaller buffers share
constexpr int kMaxSpare = 4;                   // empty slabs that are kept
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kMinSlab = SIZE_MAX;  // all buffers come from malloc, so that reads past the end are found
#else
constexpr size_t kMinSlab = system::kMapsPages ? size_t{1} << 14 : SIZE_MAX;  // bytes from which a slab is used
#endif

constexpr size_t round_to(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// A mapping aligned to kSlab. Unlike malloc's memory, all of it returns to the system when it is unmapped. It uses huge
// pages, which save TLB misses for a matrix that is streamed and for keys and values that are far apart; misses cost
// most in a virtual machine. The part after the last whole huge page uses small pages.
void* map(size_t bytes) {
  char* const first = static_cast<char*>(system::map(bytes + kSlab));
  const uintptr_t at = reinterpret_cast<uintptr_t>(first);
  const size_t before = round_to(at, kSlab) - at;
  if (before > 0) system::unmap(first, before);
  system::unmap(first + before + bytes, kSlab - before);
  system::use_huge_pages(first + before, bytes / kHugePage * kHugePage);
  return first + before;
}

size_t whole_pages(size_t bytes) { return round_to(bytes, system::page_size()); }

// A first-fit allocator for buffers too small for their own mapping: there are few, and a decoding step allocates none.
// Some empty slabs are kept, so that the encodings of the next batch need no new pages, which the system would have to
// clear.
class Slabs {
 public:
  void* allocate(size_t bytes) {
    bytes = round_to(bytes, kLine);
    const std::lock_guard lock(mutex_);
    auto block = free_.begin();
    while (block != free_.end() && block->second < bytes) ++block;
    if (block == free_.end()) {
      block = free_.emplace(reinterpret_cast<uintptr_t>(map(kSlab)), kSlab).first;
    } else if (block->second == kSlab) {
      --spare_;
    }
    const auto [at, size] = *block;
    free_.erase(block);
    if (size > bytes) free_.emplace(at + bytes, size - bytes);
    return reinterpret_cast<void*>(at);
  }

  void free(void* p, size_t bytes) {
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
    if (size == kSlab && spare_ == kMaxSpare) {
      system::unmap(reinterpret_cast<void*>(at), kSlab);
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

// Never destroyed, because threads and static objects free their buffers when the process ends. After a fork it is
// unlocked in both processes, as malloc is.
Slabs& slabs() {
  static Slabs& all = []() -> Slabs& {
    static Slabs& made = *new Slabs;
    system::at_fork([] { made.lock(); }, [] { made.unlock(); }, [] { made.unlock(); });
    return made;
  }();
  return all;
}

}  // namespace

void Buffer::Free::operator()(float* p) const {
  if (bytes < kMinSlab) return system::free(p);
  if (bytes < kMinMapping) return slabs().free(p, bytes);
  system::unmap(p, whole_pages(bytes));
}

void Buffer::reserve(int64_t size) {
  if (size <= size_) return;
  const size_t bytes = static_cast<size_t>(size) * sizeof(float);
  data_.reset();  // first, so that the old and the new memory are never held at once
  size_ = 0;
  void* p = nullptr;
  if (bytes >= kMinSlab) {
    p = bytes < kMinMapping ? slabs().allocate(bytes) : map(whole_pages(bytes));
  } else if ((p = system::allocate(kLine, round_to(bytes, kLine))) == nullptr) {
    throw std::bad_alloc();
  }
  data_ = {static_cast<float*>(p), Free{bytes}};
  size_ = size;
}

}  // namespace sharpbeam
