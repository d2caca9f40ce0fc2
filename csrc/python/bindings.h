// What each binding file adds to the module `sharpbeam._core`.
#pragma once

#include <nanobind/nanobind.h>

#include "kernels/table.h"

namespace sharpbeam {

void bind_kernels(nanobind::module_& module);         // kernels.cpp: the table of kernels, Linear
void bind_output_layers(nanobind::module_& module);   // output_layers.cpp: output layers
void bind_recurrent(nanobind::module_& module);       // recurrent.cpp: the recurrent translation model
void bind_lstm_lm(nanobind::module_& module);         // lstm_lm.cpp: the LSTM language model
void bind_lstm_attention(nanobind::module_& module);  // lstm_attention.cpp: the LSTM translation model
void bind_transformer(nanobind::module_& module);     // transformer.cpp: the transformer
void bind_team(nanobind::module_& module);            // team.cpp: Team
void bind_forward(nanobind::module_& module);         // search.cpp: what a model is to a search
void bind_search(nanobind::module_& module);          // search.cpp: Selector, Beam

// The table that the argument `isa` of a Python call means: "auto" is the one in use, kernels(),
// "profiled" the same behind clocks.
const Kernels& table_named(const char* isa);

}  // namespace sharpbeam
