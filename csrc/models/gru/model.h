// A recurrent translation model on the CPU: ids -> hidden vectors, the native twin of models/gru/module.py.
//
// A row's answer depends on that row alone, in bytes: not on its neighbours, the order of the calls, or the table.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/table.h"
#include "models/common/decoding.h"
#include "models/gru/config.h"
#include "models/gru/decoder.h"
#include "models/gru/encoder.h"

namespace sharpbeam {

// The weights, packed; immutable, so any number of runs in any number of threads share one.
class GruModel {
 public:
  using Buffers = StepBuffers;

  // Throws std::invalid_argument where a tensor is missing or does not have the shape that the config asks for.
  GruModel(const GruConfig& config, const Weights& weights, const Kernels& table);

  // What stays of each of `sources`; their initial states [count, state_dim] go to `states`. Allocates.
  std::vector<Source> encode(const Sources& sources, float* states) const;
  // hidden [R, D] and the new states. Allocates only where `buffers` is too small.
  void step(const StepRows& rows, Buffers& buffers, float* hidden) const;

  const GruConfig& config() const { return config_; }
  const Kernels& table() const { return table_; }

 private:
  GruConfig config_;
  const Kernels& table_;
  Encoder<Gru> encoder_;
  Decoder decoder_;
};

using GruDecoding = TranslationDecoding<GruModel>;

}  // namespace sharpbeam
