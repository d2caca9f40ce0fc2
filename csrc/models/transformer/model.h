// A transformer on the CPU: ids -> hidden vectors, the native twin of models/transformer/module.py.
//
// A row's answer depends on that row alone, in bytes: not on its neighbours, the order of the calls, or the table.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "models/common/decoding.h"
#include "models/common/path_pool.h"
#include "models/transformer/config.h"
#include "models/transformer/decoder.h"
#include "models/transformer/encoder.h"

namespace sharpbeam {

// The weights, packed; immutable, so any number of runs in any number of threads share one.
class Transformer {
 public:
  // Throws std::invalid_argument where a tensor is missing or does not have the shape that the config asks for.
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

// A decoding run: encoded requests, and states by handle. One thread at a time. Every call checks its arguments before
// it changes anything, and throws std::invalid_argument.
class TransformerDecoding : public InFlight<Transformer, TransformerSource, PathPool> {
 public:
  explicit TransformerDecoding(std::shared_ptr<const Transformer> model);

  // Encodes the sources of `request` [sources.count]; handles [sources.count] name their initial states.
  void admit(const int32_t* request, const Sources& sources, int32_t* handles);

  // Feeds one token to each row: hidden [rows, D] and the handles of the new states [rows]. The states read stay.
  void step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows, float* hidden,
            int32_t* handles);

  // The same step, for the attention weights [rows, width] of each row over its source, the mean over the heads of the
  // uppermost layer, zero behind the source's end. Throws std::invalid_argument where `width` is not `longest`.
  void attend(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows, float* attention,
              int64_t width, int32_t* handles);

 private:
  void run(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows, float* attention,
           int64_t width, float* hidden, int32_t* handles);

  TransformerBuffers buffers_;
  Buffer hidden_;                                 // [R, D] of `attend`, which nobody asked for
  std::vector<const TransformerSource*> source_;  // [R]
  std::vector<int32_t> before_;                   // [R]
};

}  // namespace sharpbeam
