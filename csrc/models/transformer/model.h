// A transformer on the CPU, from token ids to hidden vectors: the native twin of models/transformer/module.py.
//
// The bits of a row depend on that row alone: not on the other rows, the order of the calls, or the table.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "models/common/decoding.h"
#include "models/common/kv_cache_tree.h"
#include "models/transformer/config.h"
#include "models/transformer/decoder.h"
#include "models/transformer/encoder.h"

namespace sharpbeam {

// The packed weights. Immutable, so any number of runs in any number of threads can share them.
class Transformer {
 public:
  // Throws std::invalid_argument where sizes of the config contradict each other, or a tensor is missing or does not
  // have the shape that the config implies.
  Transformer(const TransformerConfig& config, const Weights& weights, const Kernels& table);
  Transformer(const Transformer&) = delete;

  const TransformerConfig& config() const { return config_; }
  const Kernels& table() const { return table_; }
  const TransformerEncoder& encoder() const { return encoder_; }
  const TransformerDecoder& decoder() const { return decoder_; }

 private:
  TransformerConfig config_;
  const Kernels& table_;
  TransformerEncoder encoder_;
  TransformerDecoder decoder_;
};

// A decoding run: encoded requests, and states by handle (models/common/decoding.h).
class TransformerDecoding : public DecodingBase<Transformer, CrossAttentionCache, KvCacheTree> {
 public:
  explicit TransformerDecoding(std::shared_ptr<const Transformer> model);

  // Encodes the sources of `request` [sources.count]; writes the handles of their initial states [sources.count].
  void admit(const int32_t* request, const Sources& sources, int32_t* handles);

  // Feeds one token to each row: writes hidden [rows, D] and the handles of the new states [rows]. The states that are
  // read stay.
  void step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows, float* hidden,
            int32_t* handles);

  // The same step, but writes the attention weights [rows, width] of each row over its source, the mean over the heads
  // of the last layer, zero after the end of the source. Throws std::invalid_argument unless `width` is `longest`.
  void attend(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows, float* attention,
              int64_t width, int32_t* handles);

 private:
  void run(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows, float* attention,
           int64_t width, float* hidden, int32_t* handles);

  TransformerBuffers buffers_;
  Buffer hidden_;                                   // [R, D] of `attend`, unused
  std::vector<const CrossAttentionCache*> source_;  // [R]
  std::vector<int32_t> parent_;                     // [R]
};

}  // namespace sharpbeam
