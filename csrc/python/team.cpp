// sharpbeam._core: Team.
#include "core/team.h"

#include <nanobind/nanobind.h>

#include <stdexcept>

#include "python/bindings.h"

namespace sharpbeam {
namespace {

// A team that Python keeps alive from __enter__ to __exit__, as a thread still uses it.
struct EnteredTeam : Team {
  using Team::Team;
  int64_t times = 0;
};

}  // namespace

void bind_team(nanobind::module_& module) {
  namespace nb = nanobind;
  using namespace nb::literals;
  nb::class_<EnteredTeam>(module, "Team",
                          "A team of threads; the calls inside `with team:` share their matmuls among them.")
      .def(nb::init<int64_t, int64_t>(), "threads"_a, "grain_size"_a = kGrainSize)
      .def_prop_ro("threads", &Team::threads)
      .def("__enter__",
           [](nb::handle_t<EnteredTeam> self) {
             auto& team = nb::cast<EnteredTeam&>(self);
             team.enter();
             ++team.times;
             self.inc_ref();
           })
      .def(
          "__exit__",
          [](nb::handle_t<EnteredTeam> self, nb::args) {
            auto& team = nb::cast<EnteredTeam&>(self);
            if (team.times == 0) throw std::invalid_argument("the team was not entered; use it as `with team:`");
            team.leave();
            --team.times;
            self.dec_ref();
          },
          "raised"_a);
}

}  // namespace sharpbeam
