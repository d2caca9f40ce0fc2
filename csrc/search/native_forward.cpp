#include "search/native_forward.h"

#include <stdexcept>
#include <string>

#include "kernels/profile.h"

namespace sharpbeam {

void NativeForward::use(ModelRun& model, LayerRun& layer) {
  if (model.dim() != layer.dim())
    throw std::invalid_argument("the hidden vectors are " + std::to_string(model.dim()) + " wide; the layer takes " +
                                std::to_string(layer.dim()));
  model_ = &model;
  layer_ = &layer;
}

const float* NativeForward::step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows,
                                 int32_t* states) {
  const PartSpan span(model_->table(), StepPart::decoder);
  hidden_.reserve(rows * dim());
  model_->step(request, state, token, rows, hidden_.get(), states);
  return hidden_.get();
}

void NativeForward::topk(const float* hidden, const int32_t* request, int64_t rows, int64_t k, const BeamView* beam,
                         const Estimates* estimates, float* log_prob, int32_t* token) {
  const PartSpan span(model_->table(), StepPart::output);
  layer_->topk({hidden, rows, request, nullptr, beam, estimates}, k, log_prob, token);
}

void NativeForward::log_prob(const float* hidden, const int32_t* request, int64_t rows, const int32_t* token,
                             const Estimates* estimates, float* log_prob) {
  const PartSpan span(model_->table(), StepPart::output);
  layer_->log_prob({hidden, rows, request, nullptr, nullptr, estimates}, token, log_prob);
}

void NativeForward::closer_totals(const float* hidden, const int32_t* request, int64_t rows, const Estimates& closer) {
  const PartSpan span(model_->table(), StepPart::output);
  layer_->closer_totals({hidden, rows, request, nullptr, nullptr, &closer});
}

void NativeForward::exact_totals(const float* hidden, const int32_t* request, int64_t rows, float* total) {
  const PartSpan span(model_->table(), StepPart::output);
  layer_->exact_totals({hidden, rows, request}, total);
}

}  // namespace sharpbeam
