// What a search asks of model and output layer: the twin of Forward in src/sharpbeam/search/interface.py.
#pragma once

#include <cstdint>

#include "kernels/table.h"
#include "output/interface.h"

namespace sharpbeam {

// A decoding run of a model, as a search sees it: src/sharpbeam/models/interface.py.
class ModelRun {
 public:
  virtual ~ModelRun() = default;
  virtual int64_t dim() const = 0;  // D
  virtual const Kernels& table() const = 0;
  // Feeds one token to each row: hidden [rows, D] and the handles of the new states [rows].
  virtual void step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows, float* hidden,
                    int32_t* handles) = 0;
  // Frees every state but the named ones (repeats allowed).
  virtual void retain(const int32_t* state, int64_t count) = 0;
};

}  // namespace sharpbeam
