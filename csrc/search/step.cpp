#include "search/step.h"

#include <stdexcept>
#include <string>

#include "kernels/profile.h"

namespace sharpbeam {
namespace {

// In one call: a sentence of twenty words at beam 6, or one turn of a batch. Whoever calls a run off waits for them.
constexpr int64_t kRowsAtOnce = 128;

LiveRows live(const GrownRows& rows) {
  return {static_cast<int64_t>(rows.request.size()),
          rows.request.data(),
          rows.state.data(),
          rows.token.data(),
          rows.node.data(),
          rows.length.data(),
          rows.score.data()};
}

}  // namespace

bool NativeSteps::run(ModelRun& model, LayerRun& layer, int64_t k, bool whole, const LiveRows& rows, Beam& beam) {
  if (model.dim() != layer.dim())
    throw std::invalid_argument("the hidden vectors are " + std::to_string(model.dim()) + " wide; the layer takes " +
                                std::to_string(layer.dim()));
  if (k < 1) throw std::invalid_argument("k is " + std::to_string(k) + "; it must be 1 or more");
  work_ = {};
  if (!step(model, layer, k, rows, beam)) return false;
  while (whole && beam.done().empty() && work_.rows < kRowsAtOnce) {
    rows_ = beam.grown();
    model.retain(rows_.state.data(), static_cast<int64_t>(rows_.state.size()));
    if (!step(model, layer, k, live(rows_), beam)) break;  // the next call's first turn will say so
  }
  return true;
}

bool NativeSteps::step(ModelRun& model, LayerRun& layer, int64_t k, const LiveRows& rows, Beam& beam) {
  hidden_.reserve(rows.rows * model.dim());
  log_prob_.reserve(rows.rows * k);
  state_.resize(static_cast<size_t>(rows.rows));
  token_.resize(static_cast<size_t>(rows.rows * k));
  {
    const PartSpan span(model.table(), StepPart::decoder);
    model.step(rows.request, rows.state, rows.token, rows.rows, hidden_.get(), state_.data());
  }
  {
    const PartSpan span(model.table(), StepPart::output);
    layer.topk({hidden_.get(), rows.rows, rows.request}, k, log_prob_.get(), token_.data());
  }
  const SelectionRows given{rows.rows, k, rows.request, rows.length, rows.score, token_.data(), log_prob_.get()};
  if (!beam.advance({given, state_.data(), rows.node, log_prob_.get()})) return false;
  ++work_.steps;
  work_.rows += rows.rows;
  work_.requests += beam.requests();
  return true;
}

}  // namespace sharpbeam
