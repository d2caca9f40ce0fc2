// Pages of files that are mapped into memory: weights are read from them once, and given back while others are packed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quickbeam {

// As long as it lives, the `bytes` from `begin` on are those of the open `file`: nobody has written to them, so pages
// that are given back are read again when somebody looks at them.
class FilePages {
 public:
  // Throws std::invalid_argument where `file` is no descriptor; it may be closed afterwards.
  FilePages(const void* begin, size_t bytes, int file);
  ~FilePages();
  FilePages(const FilePages&) = delete;

 private:
  uintptr_t begin_;
  int file_;
};

// Floats of a mapped file, to be read from anywhere in it: by the file, a page that is looked at is not kept in memory,
// nor are the 15 beside it that the system would map too. Valid as long as the FilePages.
class FileFloats {
 public:
  FileFloats() = default;
  // Those from `begin` on; none where that lies in no FilePages.
  explicit FileFloats(const float* begin);

  explicit operator bool() const { return file_ >= 0; }
  // `count` floats from `first` on, into `to`; false where the file has become shorter.
  bool read(int64_t first, int64_t count, float* to) const;

 private:
  int file_ = -1;
  int64_t offset_ = 0;  // bytes
};

// Gives back the pages that hold `begin` to `end`, where they are a file's; other memory is left alone.
void give_back(const float* begin, const float* end);

// Weights that are read from front to back, once: it gives back what lies behind.
class ReadOnce {
 public:
  explicit ReadOnce(const float* begin) : begin_(begin), end_(begin) {}
  ~ReadOnce() { give_back(begin_, end_); }
  ReadOnce(const ReadOnce&) = delete;

  // All before `end` has been read.
  void until(const float* end) {
    end_ = end;
    if (end_ - begin_ < kSome) return;
    give_back(begin_, end_);
    begin_ = end_;
  }

 private:
  static constexpr int64_t kSome = int64_t{1} << 20;  // floats
  const float *begin_, *end_;
};

}  // namespace quickbeam
