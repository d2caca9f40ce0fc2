// The system calls that POSIX and Windows have in different forms.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <malloc.h>
#include <windows.h>
#else
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace sharpbeam::system {

#ifdef _WIN32

// The heap maps large blocks itself. Pages of files stay in memory: only the C library that opened a file knows its
// descriptor. There are no forks, and signals have a thread of their own.
constexpr bool kMapsPages = false;

inline void* allocate(size_t alignment, size_t bytes) { return _aligned_malloc(bytes, alignment); }
inline void free(void* p) { _aligned_free(p); }
inline void* map(size_t) { throw std::bad_alloc(); }
inline void unmap(void*, size_t) {}
inline void use_huge_pages(void*, size_t) {}
inline void release(void*, size_t) {}
inline size_t page_size() { return 4096; }
inline int duplicate(int file) { return file; }
inline void close(int) {}
inline bool read(int, void*, int64_t, int64_t) { return false; }
inline int64_t process() { return 0; }
inline void at_fork(void (*)(), void (*)(), void (*)()) {}
inline void block_signals() {}
// libstdc++ 12 loses wakeups there.
inline void wait(std::atomic<uint32_t>& at, uint32_t value) { WaitOnAddress(&at, &value, sizeof value, INFINITE); }
inline void wake_all(std::atomic<uint32_t>& at) { WakeByAddressAll(&at); }

#else

constexpr bool kMapsPages = true;

inline void* allocate(size_t alignment, size_t bytes) { return std::aligned_alloc(alignment, bytes); }
inline void free(void* p) { std::free(p); }
inline void* map(size_t bytes) {
  void* const p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  return p;
}
inline void unmap(void* p, size_t bytes) { munmap(p, bytes); }
inline void use_huge_pages([[maybe_unused]] void* p, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  madvise(p, bytes, MADV_HUGEPAGE);  // a hint, which may fail
#endif
}
inline void release(void* p, size_t bytes) { madvise(p, bytes, MADV_DONTNEED); }
inline size_t page_size() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
inline int duplicate(int file) { return fcntl(file, F_DUPFD_CLOEXEC, 0); }  // negative where it is not open
inline void close(int file) { ::close(file); }
inline bool read(int file, void* to, int64_t bytes, int64_t offset) {
  return pread(file, to, static_cast<size_t>(bytes), offset) == bytes;
}
inline int64_t process() { return getpid(); }
inline void at_fork(void (*before)(), void (*parent)(), void (*child)()) { pthread_atfork(before, parent, child); }
inline void block_signals() {  // in the thread that calls
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}
inline void wait(std::atomic<uint32_t>& at, uint32_t value) { at.wait(value); }
inline void wake_all(std::atomic<uint32_t>& at) { at.notify_all(); }

#endif

}  // namespace sharpbeam::system
