// A linear layer that reads token embeddings, cached for the first tokens of the vocabulary, which are the frequent
// ones (SHARP 4.2).
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "linear/linear.h"
#include "models/common/weights.h"

namespace sharpbeam {

class PrecomputedEmbeddings {
 public:
  // Scratch memory of one decoding run; it only grows.
  struct Buffers {
    Buffer embeddings, outputs;
    LinearInput input;
    std::vector<const float*> rows;
  };

  PrecomputedEmbeddings() = default;
  // `embedding` is [vocab_size, in of `layer`]. The outputs of the first `cached` tokens are computed here; `cached`
  // may be more than vocab_size.
  PrecomputedEmbeddings(const Kernels& table, const Array& embedding, int64_t vocab_size, Linear layer, int64_t cached);

  // For each token (0 <= token < vocab_size) its output [out]. Valid until the next call.
  const float* const* apply(const Kernels& table, const int32_t* token, int64_t rows, Buffers& buffers) const;

  int64_t out() const { return layer_.out(); }

 private:
  Array embedding_;
  Linear layer_;
  Buffer cache_;  // [cached, out]
  int64_t cached_ = 0;
};

}  // namespace sharpbeam
