// sharpbeam._core: Team.
#include "core/team.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <vector>

#include "python/bindings.h"

namespace sharpbeam {
namespace {

// A team that Python keeps alive from __enter__ to __exit__, as a thread still uses it.
struct EnteredTeam : Team {
  using Team::Team;
  std::vector<std::thread::id> inside;  // that are inside, one each time
};

}  // namespace

void bind_team(nb::module_& module) {
  nb::class_<EnteredTeam>(module, "Team",
                          "A team of threads; the calls inside `with team:` share their matmuls among them.")
      .def(nb::init<int64_t, int64_t>(), "threads"_a, "grain_size"_a = kGrainSize)
      .def_prop_ro("threads", &Team::threads)
      .def("__enter__",
           [](nb::handle_t<EnteredTeam> self) {
             auto& team = nb::cast<EnteredTeam&>(self);
             team.enter();
             team.inside.push_back(std::this_thread::get_id());
             self.inc_ref();
             return self;
           })
      .def(
          "__exit__",
          [](nb::handle_t<EnteredTeam> self, nb::args) {
            auto& team = nb::cast<EnteredTeam&>(self);
            const auto own = std::find(team.inside.begin(), team.inside.end(), std::this_thread::get_id());
            if (own == team.inside.end())
              throw std::invalid_argument("the team was not entered in this thread; use it as `with team:`");
            team.leave();
            team.inside.erase(own);
            self.dec_ref();
          },
          "raised"_a);
}

}  // namespace sharpbeam
