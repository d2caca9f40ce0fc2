#include "core/file_pages.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

#include "core/system.h"

namespace sharpbeam {
namespace {

constexpr int64_t kLarge = int64_t{1} << 28;  // bytes of a matrix that is not to be kept in memory

struct File {
  uintptr_t begin, end;
  int descriptor;
};

struct Files {
  std::mutex mutex;
  std::map<uintptr_t, File> by_begin;

  // The file that holds `at`, or null; the mutex must be locked.
  const File* of(const void* at) const {
    const uintptr_t address = reinterpret_cast<uintptr_t>(at);
    const auto next = by_begin.upper_bound(address);
    if (next == by_begin.begin()) return nullptr;
    const File& file = std::prev(next)->second;
    return address < file.end ? &file : nullptr;
  }
};

// Never destroyed, because arrays may outlive static objects when the process ends. After a fork it is unlocked in both
// processes.
Files& files() {
  static Files& all = []() -> Files& {
    static Files& made = *new Files;
    system::at_fork([] { made.mutex.lock(); }, [] { made.mutex.unlock(); }, [] { made.mutex.unlock(); });
    return made;
  }();
  return all;
}

}  // namespace

FilePages::FilePages(const void* begin, size_t bytes, int file)
    : begin_(reinterpret_cast<uintptr_t>(begin)), file_(system::duplicate(file)) {
  if (file_ < 0)
    throw std::invalid_argument("file is " + std::to_string(file) + "; it must be the descriptor of an open file");
  const std::lock_guard lock(files().mutex);
  files().by_begin.insert_or_assign(begin_, File{begin_, begin_ + bytes, file_});
}

FilePages::~FilePages() {
  const std::lock_guard lock(files().mutex);
  files().by_begin.erase(begin_);
  system::close(file_);
}

FileRows::FileRows(const float* matrix, int64_t rows, int64_t width) : bytes_(width * int64_t{sizeof(float)}) {
  if (!system::kMapsPages || rows * bytes_ < kLarge) return;
  const std::lock_guard lock(files().mutex);
  const File* file = files().of(matrix);
  if (file == nullptr) return;
  file_ = file->descriptor;
  offset_ = static_cast<int64_t>(reinterpret_cast<uintptr_t>(matrix) - file->begin);
}

void FileRows::read(int64_t row, float* to) const {
  if (system::read(file_, to, bytes_, offset_ + row * bytes_)) return;
  throw std::runtime_error("the file of the weights has become shorter; load the model again");
}

void release_pages(const void* begin, const void* end) {
  const std::lock_guard lock(files().mutex);
  const File* file = files().of(begin);
  if (file == nullptr) return;
  // Whole pages, including those shared with neighboring tensors, which are in the file as well. A mapping begins on a
  // page boundary.
  const uintptr_t page = system::page_size();
  const uintptr_t first = std::max(reinterpret_cast<uintptr_t>(begin) / page * page, file->begin);
  const uintptr_t last = std::min(reinterpret_cast<uintptr_t>(end), file->end);
  if (first < last) system::release(reinterpret_cast<void*>(first), last - first);
}

}  // namespace sharpbeam
