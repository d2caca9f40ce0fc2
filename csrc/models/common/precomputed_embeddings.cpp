#include "models/common/precomputed_embeddings.h"

#include <algorithm>
#include <utility>

namespace sharpbeam {

PrecomputedEmbeddings::PrecomputedEmbeddings(const Kernels& table, const Array& embedding, int64_t vocab_size,
                                             Linear layer, int64_t cached)
    : embedding_(embedding), layer_(std::move(layer)), cached_(std::clamp<int64_t>(cached, 0, vocab_size)) {
  constexpr int64_t kBlock = 64;  // tokens at a time: their embeddings stay in the cache
  LinearInput scratch;
  cache_.reserve(cached_ * out());
  for (int64_t token = 0; token < cached_; token += kBlock)
    layer_.apply(table, embedding_.get() + token * layer_.in(), layer_.in(), cache_.get() + token * out(), out(),
                 std::min(kBlock, cached_ - token), scratch);
}

const float* const* PrecomputedEmbeddings::apply(const Kernels& table, const int32_t* token, int64_t rows,
                                                 Buffers& buffers) const {
  const int64_t in = layer_.in(), width = out();
  buffers.rows.resize(rows);
  buffers.embeddings.reserve(rows * in);
  buffers.outputs.reserve(rows * width);
  int64_t uncached = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (token[row] < cached_) {
      buffers.rows[row] = cache_.get() + token[row] * width;
      continue;
    }
    std::copy_n(embedding_.get() + token[row] * in, in, buffers.embeddings.get() + uncached * in);
    buffers.rows[row] = buffers.outputs.get() + uncached++ * width;
  }
  if (uncached > 0)
    layer_.apply(table, buffers.embeddings.get(), in, buffers.outputs.get(), width, uncached, buffers.input);
  return buffers.rows.data();
}

}  // namespace sharpbeam
