// Pages of memory-mapped files: weights are read from them once, and released while others are packed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sharpbeam {

// Registers `bytes` from `begin` on, for its lifetime, as an unmodified mapping of the open `file`: pages that are
// released are read again from the file when they are accessed.
class FilePages {
 public:
  // Duplicates `file`, which may be closed afterwards. Throws std::invalid_argument where it is not an open file.
  FilePages(const void* begin, size_t bytes, int file);
  ~FilePages();
  FilePages(const FilePages&) = delete;

 private:
  uintptr_t begin_;
  int file_;
};

// Random access to rows of a large matrix in a mapped file, by reading the file: access through the mapping would keep
// each page, and the 15 neighbors that the system maps with it, in memory. Valid as long as the FilePages.
class FileRows {
 public:
  FileRows() = default;
  // The rows of `matrix` [rows, width]. Empty where it is not in any FilePages, or small enough to stay in memory.
  FileRows(const float* matrix, int64_t rows, int64_t width);

  explicit operator bool() const { return file_ >= 0; }
  // Reads the row into `to`. Throws std::runtime_error where the file has become shorter.
  void read(int64_t row, float* to) const;

 private:
  int file_ = -1;
  int64_t offset_ = 0, bytes_ = 0;  // of the first row in the file; of each row
};

// Releases the pages that hold `begin` to `end`, where they are in a FilePages; other memory is left as it is.
void release_pages(const void* begin, const void* end);

// Releases the pages of weights that are read once, in order, as the reader advances.
class SequentialRead {
 public:
  explicit SequentialRead(const float* begin) : begin_(begin), end_(begin) {}
  ~SequentialRead() { release_pages(begin_, end_); }
  SequentialRead(const SequentialRead&) = delete;

  // All weights before `end` have been read.
  void advance_to(const float* end) {
    end_ = end;
    if (end_ - begin_ < kBlock) return;
    release_pages(begin_, end_);
    begin_ = end_;
  }

 private:
  static constexpr int64_t kBlock = int64_t{1} << 20;  // floats that are released at a time
  const float *begin_, *end_;
};

}  // namespace sharpbeam
