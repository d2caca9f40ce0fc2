// A recurrent translation model on the CPU: ids -> hidden vectors, the native twin of models/recurrent/module.py.
//
// A row's answer depends on that row alone, in bytes: not on its neighbours, the order of the calls, or the table.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "kernels/table.h"
#include "models/config.h"
#include "models/decoder.h"
#include "models/encoder.h"
#include "models/state_pool.h"

namespace quickbeam {

// The weights, packed; immutable, so any number of runs in any number of threads share one.
class RecurrentModel {
 public:
  // Throws std::invalid_argument where a tensor is missing or does not have the shape that the config asks for.
  RecurrentModel(const RecurrentConfig& config, const Weights& weights, const Kernels& table);

  const RecurrentConfig& config() const { return config_; }
  const Kernels& table() const { return table_; }
  const Encoder& encoder() const { return encoder_; }
  const Decoder& decoder() const { return decoder_; }

 private:
  RecurrentConfig config_;
  const Kernels& table_;
  Encoder encoder_;
  Decoder decoder_;
};

// The caches of one decoding run: encoded sources by request, states by handle. One thread at a time.
// Every call checks its arguments before it changes anything, and throws std::invalid_argument.
class RecurrentDecoding {
 public:
  explicit RecurrentDecoding(std::shared_ptr<const RecurrentModel> model);

  // Encodes the sources of `request` [sources.count]; handles [sources.count] name their initial states.
  void admit(const int32_t* request, const Sources& sources, int32_t* handles);

  // Feeds one token to each row: hidden [rows, D] and the handles of the new states [rows]. The states read stay.
  void step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows, float* hidden,
            int32_t* handles);

  // Frees every state but the named ones (repeats allowed).
  void retain(const int32_t* state, int64_t count);

  // Forgets the sources of the named requests.
  void evict(const int32_t* request, int64_t count);

  const RecurrentModel& model() const { return *model_; }

 private:
  const Source& source(int32_t request) const;

  std::shared_ptr<const RecurrentModel> model_;
  std::unordered_map<int32_t, Source> sources_;
  StatePool pool_;
  StepBuffers buffers_;
  Buffer parents_;                     // [U, state_dim]
  std::vector<int32_t> parent_;        // [R]
  std::vector<const Source*> source_;  // [R]
  std::vector<float*> next_;           // [R]
};

}  // namespace quickbeam
