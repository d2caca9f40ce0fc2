// An array that ends at an inaccessible page: reading or writing past its end ends the program at once, even by a
// vector instruction that sanitizers do not see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "core/system.h"

#ifdef _WIN32
constexpr size_t kPage = 4096;
inline void* reserve(size_t bytes) { return VirtualAlloc(nullptr, bytes, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE); }
inline bool forbid(void* page) {
  DWORD before;
  return VirtualProtect(page, kPage, PAGE_NOACCESS, &before) != 0;
}
inline void give_back(void* p, size_t) { VirtualFree(p, 0, MEM_RELEASE); }
#else
const size_t kPage = sharpbeam::system::page_size();
inline void* reserve(size_t bytes) { return sharpbeam::system::map(bytes); }
inline bool forbid(void* page) { return mprotect(page, kPage, PROT_NONE) == 0; }
inline void give_back(void* p, size_t bytes) { sharpbeam::system::unmap(p, bytes); }
#endif

template <typename T>
class Guarded {
 public:
  explicit Guarded(int64_t size) : size_(size) {
    const size_t bytes = static_cast<size_t>(size) * sizeof(T);
    length_ = (bytes + kPage - 1) / kPage * kPage + kPage;
    base_ = reserve(length_);
    if (base_ == nullptr || !forbid(static_cast<char*>(base_) + length_ - kPage)) {
      std::perror("guarded array");
      std::exit(2);
    }
    data_ = reinterpret_cast<T*>(static_cast<char*>(base_) + length_ - kPage - bytes);
  }
  ~Guarded() { give_back(base_, length_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  T* get() { return data_; }
  const T* get() const { return data_; }
  T& operator[](int64_t i) { return data_[i]; }
  int64_t size() const { return size_; }

 private:
  void* base_;
  T* data_;
  size_t length_;
  int64_t size_;
};
