// The module `sharpbeam._core`.
#include "python/bindings.h"

NB_MODULE(_core, module) {
  // A thread that an interrupt did not end keeps what it holds to the end of the process: no reason to print.
  nanobind::set_leak_warnings(false);
  module.doc() = "Native core of Sharpbeam";
  sharpbeam::bind_forward(module);
  sharpbeam::bind_kernels(module);
  sharpbeam::bind_linear(module);
  sharpbeam::bind_output_layers(module);
  sharpbeam::bind_models(module);
  sharpbeam::bind_gil(module);
  sharpbeam::bind_team(module);
  sharpbeam::bind_search(module);
}
