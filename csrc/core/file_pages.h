// Pages of files that are mapped into memory: weights are read from them once, and given back while others are packed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sharpbeam {

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

// Rows of a large matrix in a mapped file, which are read from anywhere in it: so a page that is looked at is not kept
// in memory, nor are the 15 beside it that the system would map too. Valid as long as the FilePages.
class FileRows {
 public:
  FileRows() = default;
  // Those of `matrix` [rows, width]; none where it lies in no FilePages, or is so small that it may come to stay.
  FileRows(const float* matrix, int64_t rows, int64_t width);

  explicit operator bool() const { return file_ >= 0; }
  // The row, into `to`; false where the file has become shorter.
  bool read(int64_t row, float* to) const;

 private:
  int file_ = -1;
  int64_t offset_ = 0, bytes_ = 0;  // of the first row; of a row
};

// Gives back the pages that hold `begin` to `end`, where they are a file's; other memory is left alone.
void release_pages(const float* begin, const float* end);

// Weights that are read from front to back, once: it gives back what lies behind.
class SequentialRead {
 public:
  explicit SequentialRead(const float* begin) : begin_(begin), end_(begin) {}
  ~SequentialRead() { release_pages(begin_, end_); }
  SequentialRead(const SequentialRead&) = delete;

  // All before `end` has been read.
  void advance_to(const float* end) {
    end_ = end;
    if (end_ - begin_ < kSome) return;
    release_pages(begin_, end_);
    begin_ = end_;
  }

 private:
  static constexpr int64_t kSome = int64_t{1} << 20;  // floats
  const float *begin_, *end_;
};

}  // namespace sharpbeam
