// The module `quickbeam._core`.
#include "bindings/bindings.h"

NB_MODULE(_core, module) {
  module.doc() = "Native core of Quickbeam";
  quickbeam::bind_forward(module);
  quickbeam::bind_kernels(module);
  quickbeam::bind_projections(module);
  quickbeam::bind_recurrent(module);
  quickbeam::bind_lstm_lm(module);
  quickbeam::bind_lstm_attention(module);
  quickbeam::bind_transformer(module);
  quickbeam::bind_screened(module);
  quickbeam::bind_shortlist(module);
  quickbeam::bind_team(module);
  quickbeam::bind_search(module);
}
