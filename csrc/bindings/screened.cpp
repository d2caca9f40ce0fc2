#include "projections/screened.h"

#include <nanobind/stl/optional.h>

#include <algorithm>

#include "bindings/arrays.h"
#include "bindings/bindings.h"

namespace quickbeam {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

void construct(ScreenedProjection* self, AnyArray weight, AnyArray bias, AnyArray cluster_weight, AnyArray cluster_bias,
               AnyArray start, AnyArray token, const char* isa, std::optional<AnyArray> center, int64_t doubt_k,
               float slope, float offset) {
  const float* w = checked<float>(weight, "weight", {kAnySize, kAnySize});
  const int64_t vocab = static_cast<int64_t>(weight.shape(0)), dim = static_cast<int64_t>(weight.shape(1));
  const float* b = checked<float>(bias, "bias", {vocab});
  ScreenView screen{};
  screen.weight = checked<float>(cluster_weight, "cluster_weight", {kAnySize, dim});
  screen.clusters = static_cast<int64_t>(cluster_weight.shape(0));
  screen.bias = checked<float>(cluster_bias, "cluster_bias", {screen.clusters});
  screen.start = checked<int32_t>(start, "start", {screen.clusters + 1});
  screen.token = checked<int32_t>(token, "token", {screen.start[screen.clusters]});
  if ((doubt_k != 0) != center.has_value()) {
    throw std::invalid_argument("doubt_k is " + std::to_string(doubt_k) + "; it must be given with center, or not");
  }
  if (center) screen.center = checked<float>(*center, "center", {screen.clusters, dim});
  screen.doubt_k = doubt_k;
  screen.slope = slope;
  screen.offset = offset;
  new (self) ScreenedProjection(w, b, vocab, dim, screen, table_named(isa));
}

nb::tuple topk(const ScreenedProjection& self, AnyArray hidden, int64_t k) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  const size_t rows = hidden.shape(0), width = static_cast<size_t>(std::clamp<int64_t>(k, 0, self.vocab()));
  auto log_prob = new_array<float>({rows, width});
  auto token = new_array<int32_t>({rows, width});
  auto doubtful = new_array<bool>({rows});
  {
    nb::gil_scoped_release release;
    self.topk(x, static_cast<int64_t>(rows), k, log_prob.data, token.data, doubtful.data);
  }
  return nb::make_tuple(log_prob.array, token.array, doubtful.array);
}

nb::tuple topk_union(const ScreenedProjection& self, AnyArray hidden, int64_t k) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  const size_t rows = hidden.shape(0), width = static_cast<size_t>(std::clamp<int64_t>(k, 0, self.vocab()));
  auto log_prob = new_array<float>({rows, width});
  auto token = new_array<int32_t>({rows, width});
  {
    nb::gil_scoped_release release;
    self.topk_union(x, static_cast<int64_t>(rows), k, log_prob.data, token.data);
  }
  return nb::make_tuple(log_prob.array, token.array);
}

nb::tuple log_prob(const ScreenedProjection& self, AnyArray hidden, AnyArray token) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  const int64_t rows = static_cast<int64_t>(hidden.shape(0));
  const int32_t* tokens = checked<int32_t>(token, "token", {rows});
  auto out = new_array<float>({hidden.shape(0)});
  auto doubtful = new_array<bool>({hidden.shape(0)});
  {
    nb::gil_scoped_release release;
    self.log_prob(x, tokens, rows, out.data, doubtful.data);
  }
  return nb::make_tuple(out.array, doubtful.array);
}

}  // namespace

void bind_screened(nb::module_& module) {
  nb::class_<ScreenedProjection>(module, "ScreenedProjection")
      .def("__init__", &construct, "weight"_a, "bias"_a, "cluster_weight"_a, "cluster_bias"_a, "start"_a, "token"_a,
           "isa"_a = "auto", "center"_a = nb::none(), "doubt_k"_a = 0, "slope"_a = 0.0f, "offset"_a = 0.0f)
      .def("topk", &topk, "hidden"_a, "k"_a)
      .def("topk_union", &topk_union, "hidden"_a, "k"_a)
      .def("log_prob", &log_prob, "hidden"_a, "token"_a)
      .def_prop_ro("vocab_size", &ScreenedProjection::vocab)
      .def_prop_ro("dim", &ScreenedProjection::dim)
      .def_prop_ro("floats", &ScreenedProjection::floats);
}

}  // namespace quickbeam
