// The forward pass where model and output layer are native: no Python in a step.
#pragma once

#include <cstdint>

#include "core/buffer.h"
#include "search/forward.h"

namespace sharpbeam {

// Scratch only grows, so warm steps allocate nothing.
class NativeForward : public Forward {
 public:
  // To be called before any step, and whenever either of them changes. Throws std::invalid_argument unless they agree
  // on the width D.
  void use(ModelRun& model, LayerRun& layer);

  int64_t dim() const override { return model_->dim(); }
  const float* step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows,
                    int32_t* states) override;
  bool estimates() const override { return layer_->estimates(); }
  bool rough() const override { return layer_->rough(); }
  bool has_closer() const override { return layer_->has_closer(); }
  void topk(const float* hidden, const int32_t* request, int64_t rows, int64_t k, const BeamView* beam,
            const Estimates* estimates, float* log_prob, int32_t* token) override;
  void log_prob(const float* hidden, const int32_t* request, int64_t rows, const int32_t* token,
                const Estimates* estimates, float* log_prob) override;
  void closer_totals(const float* hidden, const int32_t* request, int64_t rows, const Estimates& closer) override;
  void exact_totals(const float* hidden, const int32_t* request, int64_t rows, float* total) override;
  void retain(const int32_t* state, int64_t count) override { model_->retain(state, count); }

 private:
  ModelRun* model_ = nullptr;
  LayerRun* layer_ = nullptr;
  Buffer hidden_;  // [R, D]
};

}  // namespace sharpbeam
