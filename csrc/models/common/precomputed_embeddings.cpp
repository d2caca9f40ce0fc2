#include "models/common/precomputed_embeddings.h"

#include <algorithm>
#include <utility>

namespace sharpbeam {

PrecomputedEmbeddings::PrecomputedEmbeddings(const Kernels& table, const Array& embedding, int64_t vocab_size,
                                             Linear product, int64_t kept)
    : embedding_(embedding), product_(std::move(product)), count_(std::clamp<int64_t>(kept, 0, vocab_size)) {
  constexpr int64_t kBlock = 64;  // words at a time: their inputs stay in the cache
  LinearInput scratch;
  kept_.reserve(count_ * out());
  for (int64_t word = 0; word < count_; word += kBlock)
    product_.apply(table, embedding_.get() + word * product_.in(), product_.in(), kept_.get() + word * out(), out(),
                   std::min(kBlock, count_ - word), scratch);
}

const float* const* PrecomputedEmbeddings::of(const Kernels& table, const int32_t* token, int64_t rows,
                                              Buffers& buffers) const {
  const int64_t in = product_.in(), width = out();
  buffers.found.resize(rows);
  buffers.words.reserve(rows * in);
  buffers.products.reserve(rows * width);
  int64_t others = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (token[row] < count_) {
      buffers.found[row] = kept_.get() + token[row] * width;
      continue;
    }
    std::copy_n(embedding_.get() + token[row] * in, in, buffers.words.get() + others * in);
    buffers.found[row] = buffers.products.get() + others++ * width;
  }
  if (others > 0)
    product_.apply(table, buffers.words.get(), in, buffers.products.get(), width, others, buffers.rounded);
  return buffers.found.data();
}

}  // namespace sharpbeam
