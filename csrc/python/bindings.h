// The parts of the module `sharpbeam._core`, one for each binding file.
#pragma once

#include <nanobind/nanobind.h>

#include "kernels/table.h"

namespace sharpbeam {

namespace nb = nanobind;
using namespace nb::literals;

void bind_kernels(nanobind::module_& module);        // kernels.cpp: the tables of kernels, and each kernel
void bind_linear(nanobind::module_& module);         // linear.cpp: Linear, and the memory of weights in files
void bind_output_layers(nanobind::module_& module);  // output_layers.cpp: output layers
void bind_models(nanobind::module_& module);         // models.cpp: the models and their decoding runs
void bind_gil(nanobind::module_& module);            // gil.cpp: the end of the interpreter
void bind_team(nanobind::module_& module);           // team.cpp: Team
void bind_forward(nanobind::module_& module);        // search.cpp: ModelRun
void bind_search(nanobind::module_& module);         // search.cpp: Search

// The table that the argument `isa` of a Python call names: "auto" is the table in use, kernels(), "profiled" the same
// with clocks (kernels/profile.h), "plain" the same with the C library's tanh and sigmoid (kernels/plain.h).
const Kernels& table_named(const char* isa);

}  // namespace sharpbeam
