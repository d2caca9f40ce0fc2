// An output layer without words that a model must never produce: the twin of src/sharpbeam/output_layers/suppressed.py.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "search/forward.h"

namespace sharpbeam {

// For one thread at a time. Scratch of one decoding run; it only grows, so warm steps allocate nothing.
class SuppressedRun : public LayerRun {
 public:
  // `layer` has to outlive it. Repeats among the `suppressed` [count] are allowed; throws std::invalid_argument unless
  // each of them is from 0 to vocab - 1.
  SuppressedRun(LayerRun& layer, const int32_t* suppressed, int64_t count);

  int64_t dim() const override { return layer_.dim(); }
  int64_t vocab() const override { return layer_.vocab(); }

  // The k best of the words that are allowed, in the layer's order and with its log probabilities; then, where there
  // are not so many, suppressed ones with -inf. Throws std::invalid_argument as the layer does.
  void topk(const float* hidden, const int32_t* request, int64_t rows, int64_t k, float* log_prob,
            int32_t* token) override;

 private:
  LayerRun& layer_;
  std::vector<char> banned_;    // [vocab]
  int64_t most_ = 0;            // words that are banned
  Buffer log_prob_;             // [R, k + most_]
  std::vector<int32_t> token_;  // [R, k + most_]
};

}  // namespace sharpbeam
