// The common part of the bindings of output layers.
#pragma once

#include <cstdint>

#include "core/buffer.h"
#include "python/arrays.h"
#include "python/bindings.h"

namespace sharpbeam {

// Adds a layer to the module: a static object in the binding file of each layer, so that no other file names it.
struct LayerBinding {
  explicit LayerBinding(void (*bind)(nanobind::module_&));
};

// The arguments weight [V, D] and bias [V] of a layer.
struct OutputArrays {
  OutputArrays(const Floats& weight_array, const Floats& bias_array)
      : w(checked<float>(weight_array, "weight", {kAnySize, kAnySize})),
        vocab(static_cast<int64_t>(weight_array.shape(0))),
        dim(static_cast<int64_t>(weight_array.shape(1))),
        b(checked<float>(bias_array, "bias", {vocab})),
        weight(shared(weight_array, w)),
        bias(shared(bias_array, b)) {}
  const float* w;
  int64_t vocab, dim;
  const float* b;
  Array weight, bias;
};

}  // namespace sharpbeam
