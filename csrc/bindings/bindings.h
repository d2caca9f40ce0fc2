// What each binding file adds to the module `quickbeam._core`.
#pragma once

#include <nanobind/nanobind.h>

namespace quickbeam {

void bind_kernels(nanobind::module_& module);      // kernels.cpp: the table of kernels, Matrix
void bind_projections(nanobind::module_& module);  // projections.cpp: ExactProjection
void bind_recurrent(nanobind::module_& module);    // recurrent.cpp: the recurrent translation model

}  // namespace quickbeam
