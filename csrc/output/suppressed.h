// An output layer without the tokens that a model must never produce, such as the padding of MarianMT. The counterpart
// of src/sharpbeam/output_layers/suppressed.py.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "output/interface.h"

namespace sharpbeam {

class SuppressedLayer final : public OutputLayer {
 public:
  // `layer` has to outlive it. Repeats among the `suppressed` [count] are allowed; throws std::invalid_argument unless
  // each of them is from 0 to vocab - 1.
  SuppressedLayer(const OutputLayer& layer, const int32_t* suppressed, int64_t count);

  int64_t dim() const override { return layer_.dim(); }
  int64_t vocab() const override { return layer_.vocab(); }

  // A run whose topk has the k best of the tokens that are allowed, in the layer's order and with its log
  // probabilities; then, if these are fewer than k, suppressed ones with -inf. log_prob is the layer's.
  std::unique_ptr<LayerRun> open() const override;

 private:
  const OutputLayer& layer_;
  std::vector<char> suppressed_;  // [vocab]
  int64_t most_ = 0;              // how many are
};

}  // namespace sharpbeam
