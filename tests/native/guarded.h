// An array that ends at an inaccessible page: reading or writing past its end ends the program at once, even by a
// vector instruction that sanitizers do not see.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

template <typename T>
class Guarded {
 public:
  explicit Guarded(int64_t size) : size_(size) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = static_cast<size_t>(size) * sizeof(T);
    length_ = (bytes + page - 1) / page * page + page;
    base_ = mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED || mprotect(static_cast<char*>(base_) + length_ - page, page, PROT_NONE) != 0) {
      std::perror("guarded array");
      std::exit(2);
    }
    data_ = reinterpret_cast<T*>(static_cast<char*>(base_) + length_ - page - bytes);
  }
  ~Guarded() { munmap(base_, length_); }
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
