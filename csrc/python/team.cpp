// sharpbeam._core: Team.
#include "core/team.h"

#include <nanobind/nanobind.h>

#include "python/bindings.h"

namespace sharpbeam {

void bind_team(nanobind::module_& module) {
  namespace nb = nanobind;
  using namespace nb::literals;
  nb::class_<Team>(module, "Team", "A team of threads; the calls inside `with team:` share their matmuls among them.")
      .def(nb::init<int64_t, int64_t>(), "threads"_a, "grain_size"_a = kGrainSize)
      .def_prop_ro("threads", &Team::threads)
      .def("__enter__", &Team::enter)
      .def("__exit__", [](Team& self, nb::args) { self.leave(); }, "raised"_a);
}

}  // namespace sharpbeam
