// An output layer for each target language, or each direction, of a multilingual model (CVP section 2.2). The
// counterpart of src/sharpbeam/output_layers/by_language.py.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "output/interface.h"

namespace sharpbeam {

enum class LayerPer { target, direction };

class LayerByLanguage final : public OutputLayer {
 public:
  // The layer of each scope: a target's code, or "SOURCE-TARGET". The layers have to outlive it. Throws
  // std::invalid_argument for none, and for layers of different sizes.
  LayerByLanguage(LayerPer per, std::vector<std::string> scopes, std::vector<const OutputLayer*> layers);

  int64_t dim() const override { return layers_.front()->dim(); }
  int64_t vocab() const override { return layers_.front()->vocab(); }

  // A run in which each row has the bits that the layer of its request gives. Its admit throws std::invalid_argument
  // for a request that `scope_of` has no layer for.
  std::unique_ptr<LayerRun> open() const override;

  const std::vector<const OutputLayer*>& layers() const { return layers_; }
  // The index of the request's layer. Per direction, the only one into the target where no source language is given.
  size_t scope_of(const LayerRequest& request) const;

 private:
  LayerPer per_;
  std::vector<std::string> scopes_;
  std::vector<const OutputLayer*> layers_;
};

}  // namespace sharpbeam
