// A GRU translation model on the CPU, from token ids to hidden vectors: the native twin of models/gru/module.py.
//
// The bits of a row depend on that row alone: not on the other rows, the order of the calls, or the table.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/table.h"
#include "models/common/bidirectional_encoder.h"
#include "models/common/decoding.h"
#include "models/gru/cell.h"
#include "models/gru/config.h"
#include "models/gru/decoder.h"

namespace sharpbeam {

// The packed weights. Immutable, so any number of runs in any number of threads can share them.
class GruModel {
 public:
  using Buffers = GruBuffers;

  // Throws std::invalid_argument where sizes of the config contradict each other, or a tensor is missing or does not
  // have the shape that the config implies.
  GruModel(const GruConfig& config, const Weights& weights, const Kernels& table);

  // Encodes `sources`; writes their initial states [count, state_dim]. Allocates.
  std::vector<EncodedSource> encode(const Sources& sources, float* states) const;
  // Writes hidden [R, D] and the new states. Allocates only where `buffers` is too small.
  void step(const StepRows& rows, Buffers& buffers, float* hidden) const;

  const GruConfig& config() const { return config_; }
  const Kernels& table() const { return table_; }

 private:
  GruConfig config_;
  const Kernels& table_;
  BidirectionalEncoder<GruCell> encoder_;
  GruDecoder decoder_;
};

using GruDecoding = RecurrentTranslationDecoding<GruModel>;

}  // namespace sharpbeam
