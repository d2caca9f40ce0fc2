// A screen as it is fitted, and the layers over it.
#include "output/screen.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <stdexcept>
#include <string>

#include "output/screen_union.h"
#include "output/shortlist.h"
#include "output/shortlist_fallback.h"
#include "python/gil.h"
#include "python/output_layers.h"

namespace sharpbeam {
namespace {

ScreenView clusters_of(const Floats& weight, const Floats& bias, const Ids& start, const Ids& token, int64_t dim) {
  ScreenView screen{};
  screen.weight = checked<float>(weight, "cluster_weight", {kAnySize, dim});
  screen.clusters = static_cast<int64_t>(weight.shape(0));
  screen.bias = checked<float>(bias, "cluster_bias", {screen.clusters});
  screen.start = checked<int32_t>(start, "start", {screen.clusters + 1});
  screen.token = checked<int32_t>(token, "token", {screen.start[screen.clusters]});
  return screen;
}

void construct_screen(ScreenLayer* self, Floats weight, Floats bias, Floats cluster_weight, Floats cluster_bias,
                      Ids start, Ids token, const char* isa, bool int8, const RowLayer* fallback,
                      std::optional<Floats> residual_weight, std::optional<Floats> residual_bias,
                      std::optional<Floats> center, int64_t fallback_k, float margin, float mass_weight,
                      float distance_weight, float threshold, float max_log_share) {
  const OutputArrays arrays(weight, bias);
  ScreenView screen = clusters_of(cluster_weight, cluster_bias, start, token, arrays.dim);
  if (residual_weight.has_value() != residual_bias.has_value()) {
    throw std::invalid_argument("residual_weight is given without residual_bias, or it without; give both, or none");
  }
  if (residual_weight) {
    ResidualView& residual = screen.residual;
    residual.weight = checked<float>(*residual_weight, "residual_weight", {screen.clusters, kAnySize, arrays.dim});
    residual.components = static_cast<int64_t>(residual_weight->shape(1));
    residual.bias = checked<float>(*residual_bias, "residual_bias", {screen.clusters, residual.components});
  }
  if ((fallback_k != 0) != center.has_value()) {
    throw std::invalid_argument("fallback_k is " + std::to_string(fallback_k) +
                                "; it must be given together with center, or neither");
  }
  const float* centers = center ? checked<float>(*center, "center", {screen.clusters, arrays.dim}) : nullptr;
  screen.fallback = {centers, fallback_k, margin, mass_weight, distance_weight, threshold, max_log_share};
  const Kernels& table = table_named(isa);
  const WithoutGil released;
  new (self) ScreenLayer(arrays.weight, arrays.b, arrays.vocab, arrays.dim, screen, int8, fallback, table);
}

void construct_union(ScreenUnionLayer* self, Floats weight, Floats bias, Floats cluster_weight, Floats cluster_bias,
                     Ids start, Ids token, const char* isa) {
  const OutputArrays arrays(weight, bias);
  const ScreenView screen = clusters_of(cluster_weight, cluster_bias, start, token, arrays.dim);
  new (self) ScreenUnionLayer(arrays.weight, arrays.b, arrays.vocab, arrays.dim, screen, table_named(isa));
}

IdArray assign(const ScreenLayer& self, Floats hidden) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  auto cluster = new_array<int32_t>({hidden.shape(0)});
  {
    const WithoutGil released;
    self.assign(x, static_cast<int64_t>(hidden.shape(0)), cluster.data);
  }
  return cluster.array;
}

FloatArray features(const ScreenLayer& self, Floats hidden) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  auto out = new_array<float>({hidden.shape(0), static_cast<size_t>(ScreenLayer::kFeatures)});
  {
    const WithoutGil released;
    self.features(x, static_cast<int64_t>(hidden.shape(0)), out.data);
  }
  return out.array;
}

Shortlist shortlist_of(const Ids& always, const Ids& start, const Ids& token, int64_t vocab) {
  ShortlistView view{};
  view.always = checked<int32_t>(always, "always", {kAnySize});
  view.always_count = static_cast<int64_t>(always.size());
  view.start = checked<int32_t>(start, "start", {kAnySize});
  if (start.size() == 0) throw std::invalid_argument("start is empty; it must have an entry for each source and one");
  view.sources = static_cast<int64_t>(start.size()) - 1;
  view.token = checked<int32_t>(token, "token", {view.start[view.sources]});
  return Shortlist(view, vocab);
}

void construct_shortlist(ShortlistLayer* self, Floats weight, Floats bias, Ids always, Ids start, Ids token,
                         const char* isa) {
  const OutputArrays arrays(weight, bias);
  new (self) ShortlistLayer(arrays.weight, arrays.bias, arrays.vocab, arrays.dim,
                            shortlist_of(always, start, token, arrays.vocab), table_named(isa));
}

void construct_fallback(ShortlistFallbackLayer* self, Floats weight, Floats bias, Ids always, Ids start, Ids token,
                        Floats inner, Floats inner_bias, Floats outer, Floats direct, float threshold, float most_share,
                        const RowLayer* fallback, const char* isa) {
  const OutputArrays arrays(weight, bias);
  ShortlistTestView test{};
  test.inner = checked<float>(inner, "inner", {kAnySize, arrays.dim});
  test.units = static_cast<int64_t>(inner.shape(0));
  test.bias = checked<float>(inner_bias, "inner_bias", {test.units});
  test.outer = checked<float>(outer, "outer", {2, test.units});
  test.direct = checked<float>(direct, "direct", {2, 3});
  test.threshold = threshold, test.most_share = most_share;
  new (self) ShortlistFallbackLayer(arrays.weight, arrays.bias, arrays.vocab, arrays.dim,
                                    shortlist_of(always, start, token, arrays.vocab), test, fallback, table_named(isa));
}

void bind(nb::module_& module) {
  nb::class_<ScreenLayer, RowLayer>(module, "ScreenLayer")
      .def("__init__", &construct_screen, "weight"_a, "bias"_a, "cluster_weight"_a, "cluster_bias"_a, "start"_a,
           "token"_a, "isa"_a = "auto", "int8"_a = true, "fallback"_a.none() = nb::none(),
           "residual_weight"_a = nb::none(), "residual_bias"_a = nb::none(), "center"_a = nb::none(),
           "fallback_k"_a = 0, "margin"_a = 0.0f, "mass_weight"_a = 0.0f, "distance_weight"_a = 0.0f,
           "threshold"_a = 0.0f, "max_log_share"_a = 0.0f, nb::keep_alive<1, 10>())
      .def("features", &features, "hidden"_a,
           "[R, 5]: best logit, k-th best, log of the residual mass, distance to the center, log normalizer.")
      .def("assign", &assign, "hidden"_a, "The cluster [R] of each row.")
      .def_prop_ro("rows_seen", &ScreenLayer::rows_seen)
      .def_prop_ro("rows_fallen_back", &ScreenLayer::rows_fallen_back);
  nb::class_<ScreenUnionLayer, RowLayer>(module, "ScreenUnionLayer")
      .def("__init__", &construct_union, "weight"_a, "bias"_a, "cluster_weight"_a, "cluster_bias"_a, "start"_a,
           "token"_a, "isa"_a = "auto");
  nb::class_<ShortlistLayer, OutputLayer>(module, "ShortlistLayer")
      .def("__init__", &construct_shortlist, "weight"_a, "bias"_a, "always"_a, "start"_a, "token"_a, "isa"_a = "auto");
  nb::class_<ShortlistFallbackLayer, OutputLayer>(module, "ShortlistFallbackLayer")
      .def("__init__", &construct_fallback, "weight"_a, "bias"_a, "always"_a, "start"_a, "token"_a, "inner"_a,
           "inner_bias"_a, "outer"_a, "direct"_a, "threshold"_a, "most_share"_a, "fallback"_a, "isa"_a = "auto",
           nb::keep_alive<1, 13>())
      .def_prop_ro("rows_seen", &ShortlistFallbackLayer::rows_seen)
      .def_prop_ro("rows_fallen_back", &ShortlistFallbackLayer::rows_fallen_back);
}

const LayerBinding binding(&bind);

}  // namespace
}  // namespace sharpbeam
