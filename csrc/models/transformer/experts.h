// The matmuls of a feed-forward part: one expert, or a mixture of experts (Shazeer et al. 2017) of which each row takes
// the two with the largest router logits (GShard: Lepikhin et al. 2021), however many rows chose the same ones. The
// twin of module.py.
//
//   y = g_1 E_1(x) + g_2 E_2(x),   E_e(x) = down_e act(up_e x),   g = softmax(router x), of the two best
//
// Rows are sorted by expert, so that the weights of each one are read once for all rows that chose it. A row's bits do
// not depend on the other rows, since those of a matmul do not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "models/common/weights.h"
#include "models/transformer/config.h"

namespace sharpbeam {

// Scratch memory; it only grows, so a warm step allocates nothing.
struct ExpertBuffers {
  Buffer logits, gate, gathered, inner, found, answers;
  std::vector<int32_t> expert;  // [2 * rows] those that row r takes are 2 r (the better one) and 2 r + 1
  std::vector<int32_t> order;   // [2 * rows] of these places, by expert
  std::vector<int64_t> first;   // [E + 1] where each expert's places begin in `order`
};

class Experts {
 public:
  static constexpr int64_t kBlockRows = 96;  // rows whose inner activations fit the cache
  static constexpr int64_t kMost = 1024;     // experts of a mixture

  // Tensors NAME.up and NAME.down, of a mixture those of all experts one below the other and NAME.router, whose matmul
  // is always in float32.
  Experts(const Weights& weights, const std::string& name, const TransformerConfig& config, int64_t width,
          bool mixture);

  // y [rows, D] of x [rows, D]; they must not overlap. More than kBlockRows rows are for mixtures only.
  void apply(const Kernels& table, const float* x, int64_t rows, float* y, ExpertBuffers& buffers,
             LinearInput& input) const;

  int64_t count() const { return static_cast<int64_t>(experts_.size()); }

 private:
  struct Expert {
    Linear up, down;
  };

  void apply_one(const Kernels& table, const Expert& expert, const float* x, int64_t rows, float* y,
                 ExpertBuffers& buffers, LinearInput& input) const;
  // Chooses two experts for each row, and their gates [2 * rows].
  void route(const Kernels& table, const float* x, int64_t rows, ExpertBuffers& buffers, LinearInput& input) const;
  void sort_by_expert(int64_t rows, ExpertBuffers& buffers) const;

  std::vector<Expert> experts_;
  Linear router_;
  Activation activation_;
  bool gated_, normalized_;
  int64_t width_, dim_;
};

}  // namespace sharpbeam
