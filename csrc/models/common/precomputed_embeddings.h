// What a layer makes of words: the product of each one's embedding, kept for the first words of the vocabulary, which
// are the frequent ones (SHARP 4.2).
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "linear/linear.h"
#include "models/common/weights.h"

namespace sharpbeam {

class PrecomputedEmbeddings {
 public:
  // Scratch of one decoding run; it only grows.
  struct Buffers {
    Buffer words, products;
    LinearInput rounded;
    std::vector<const float*> found;
  };

  PrecomputedEmbeddings() = default;
  // Of the table `embedding` [vocab_size, in of the product]; `kept` may be more than there are words.
  PrecomputedEmbeddings(const Kernels& table, const Array& embedding, int64_t vocab_size, Linear product, int64_t kept);

  // For each token, which must lie in the vocabulary, its product [out]. Good until the next call.
  const float* const* of(const Kernels& table, const int32_t* token, int64_t rows, Buffers& buffers) const;

  int64_t out() const { return product_.out(); }

 private:
  Array embedding_;
  Linear product_;
  Buffer kept_;  // [count, out]
  int64_t count_ = 0;
};

}  // namespace sharpbeam
