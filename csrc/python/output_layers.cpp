// The interface of output layers, and the layers that are made of weight and bias, or of other layers.
#include "python/output_layers.h"
#include "python/gil.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "output/by_language.h"
#include "output/exact.h"
#include "output/interface.h"
#include "output/scan.h"
#include "output/suppressed.h"

namespace sharpbeam {
namespace {

using Bind = void (*)(nb::module_&);

std::vector<Bind>& layer_bindings() {
  static std::vector<Bind> all;
  return all;
}

// ---- LayerRun

void admit(LayerRun& self, int32_t request, Ids source, std::string_view source_language,
           std::string_view target_language) {
  const int32_t* tokens = checked<int32_t>(source, "source", {kAnySize});
  const WithoutGil released;
  self.admit({request, {tokens, source.size()}, source_language, target_language});
}

void evict(LayerRun& self, Ids request) {
  const int32_t* requests = checked<int32_t>(request, "request", {kAnySize});
  const WithoutGil released;
  self.evict(requests, static_cast<int64_t>(request.size()));
}

LayerRows rows_of(const LayerRun& self, const Floats& hidden, const Ids& request) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  const int64_t rows = static_cast<int64_t>(hidden.shape(0));
  return {x, rows, checked<int32_t>(request, "request", {rows})};
}

Tuple<FloatArray, IdArray> run_topk(LayerRun& self, Floats hidden, int64_t k, Ids request) {
  const LayerRows rows = rows_of(self, hidden, request);
  const size_t width = static_cast<size_t>(std::clamp<int64_t>(k, 0, self.vocab()));
  auto log_prob = new_array<float>({hidden.shape(0), width});
  auto token = new_array<int32_t>({hidden.shape(0), width});
  {
    const WithoutGil released;
    self.topk(rows, k, log_prob.data, token.data);
  }
  return nb::make_tuple(log_prob.array, token.array);
}

FloatArray run_log_prob(LayerRun& self, Floats hidden, Ids token, Ids request) {
  const LayerRows rows = rows_of(self, hidden, request);
  const int32_t* tokens = checked<int32_t>(token, "token", {rows.rows});
  auto out = new_array<float>({hidden.shape(0)});
  {
    const WithoutGil released;
    self.log_prob(rows, tokens, out.data);
  }
  return out.array;
}

// ---- RowLayer

// Other threads may run during a call of more than some 20 microseconds.
template <typename Work>
void run(const RowLayer& layer, int64_t rows, Work work) {
  constexpr int64_t kQuick = int64_t{1} << 20;  // multiply-adds
  if (rows * layer.row_cost() <= kQuick) return work();
  const WithoutGil released;
  work();
}

// Results are made by the caller, because that takes a third of the time of a quick call.
void topk_plain(const RowLayer& self, nb::handle hidden, nb::handle log_prob, nb::handle token) {
  const PlainArray<const float> x(hidden);
  const PlainArray<float> to(log_prob);
  const PlainArray<int32_t> tokens(token);
  const int64_t rows = x.rows(), k = to.columns();
  if (x.columns() != self.dim() || to.rows() != rows || tokens.rows() != rows || tokens.columns() != k) {
    throw nb::next_overload();
  }
  run(self, rows, [&] { self.topk({x.data(), rows}, k, to.data(), tokens.data()); });
}

void topk(const RowLayer& self, Floats hidden, WritableFloats log_prob, WritableIds token) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  const int64_t rows = static_cast<int64_t>(hidden.shape(0));
  const int64_t k = log_prob.ndim() == 2 ? static_cast<int64_t>(log_prob.shape(1)) : 0;
  float* to = writable(log_prob, "log_prob", {rows, k});
  int32_t* tokens = writable(token, "token", {rows, k});
  run(self, rows, [&] { self.topk({x, rows}, k, to, tokens); });
}

FloatArray log_prob(const RowLayer& self, Floats hidden, Ids token) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  const int64_t rows = static_cast<int64_t>(hidden.shape(0));
  const int32_t* tokens = checked<int32_t>(token, "token", {rows});
  auto out = new_array<float>({hidden.shape(0)});
  run(self, rows, [&] { self.log_prob({x, rows}, tokens, out.data); });
  return out.array;
}

Tuple<FloatArray, FloatArray> closer_normalizers(const RowLayer& self, Floats hidden) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  auto total = new_array<float>({hidden.shape(0)}), error = new_array<float>({hidden.shape(0)});
  {
    const WithoutGil released;
    const Estimates closer{total.data, error.data};
    self.closer_totals({x, static_cast<int64_t>(hidden.shape(0)), nullptr, nullptr, nullptr, &closer});
  }
  return nb::make_tuple(total.array, error.array);
}

// (log_prob, token, total, tokens that took exact logits)
Tuple<FloatArray, IdArray, FloatArray, IdArray> topk_details(const ScanLayer& self, Floats hidden, int64_t k,
                                                             bool normalize) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  const size_t rows = hidden.shape(0), width = static_cast<size_t>(std::clamp<int64_t>(k, 0, self.vocab()));
  auto log_prob = new_array<float>({rows, width});
  auto token = new_array<int32_t>({rows, width});
  auto total = new_array<float>({rows});
  auto count = new_array<int32_t>({rows});
  {
    const WithoutGil released;
    self.rank({x, static_cast<int64_t>(rows)}, k, normalize, log_prob.data, token.data, total.data, count.data);
  }
  return nb::make_tuple(log_prob.array, token.array, total.array, count.array);
}

// ---- layers

void construct_exact(ExactLayer* self, Floats weight, Floats bias, const char* isa, bool deferred) {
  const OutputArrays arrays(weight, bias);
  new (self) ExactLayer(arrays.weight, arrays.bias, arrays.vocab, arrays.dim, table_named(isa), deferred);
}

void construct_scan(ScanLayer* self, Floats weight, Floats bias, const char* isa, float trust) {
  const OutputArrays arrays(weight, bias);
  const Kernels& table = table_named(isa);
  const WithoutGil released;  // others continue while it packs
  new (self) ScanLayer(arrays.weight, arrays.b, arrays.vocab, arrays.dim, table, trust);
}

void construct_suppressed(SuppressedLayer* self, const OutputLayer& layer, Ids suppressed) {
  const int32_t* tokens = checked<int32_t>(suppressed, "suppressed", {kAnySize});
  new (self) SuppressedLayer(layer, tokens, static_cast<int64_t>(suppressed.size()));
}

// A tuple, since what is in it stays: it keeps the layers alive.
void construct_by_language(LayerByLanguage* self, const std::string& per, std::vector<std::string> scopes,
                           nb::typed<nb::tuple, OutputLayer, nb::ellipsis> layers) {
  if (per != "target" && per != "direction") {
    throw std::invalid_argument("per is '" + per + "'; it must be target or direction");
  }
  std::vector<const OutputLayer*> all;
  for (const nb::handle each : layers) all.push_back(&nb::cast<const OutputLayer&>(each));
  const LayerPer kind = per == "target" ? LayerPer::target : LayerPer::direction;
  new (self) LayerByLanguage(kind, std::move(scopes), std::move(all));
}

void bind_interface(nb::module_& module) {
  nb::class_<LayerRun>(module, "LayerRun", "An output layer of the core in one decoding run.")
      .def("admit", &admit, "request"_a, "source"_a, "source_language"_a = "", "target_language"_a = "",
           "Prepare for rows of a request: its index and the ids of its source [S].")
      .def("evict", &evict, "request"_a, "Forget the requests named by index [n].")
      .def("topk", &run_topk, "hidden"_a, "k"_a, "request"_a, kGuard,
           "log_prob and token [R, k] of the k best tokens of each row; see output_layers.interface.OutputLayerRun.")
      .def("log_prob", &run_log_prob, "hidden"_a, "token"_a, "request"_a, kGuard,
           "Log probability [R] of a token of each row.");
  nb::class_<OutputLayer>(module, "OutputLayer", "An output layer of the core: weights that decoding runs share.")
      .def("open", &OutputLayer::open, nb::keep_alive<0, 1>(), "The layer in a new decoding run.")
      .def_prop_ro("vocab_size", &OutputLayer::vocab);
  nb::class_<RowLayer, OutputLayer>(module, "RowLayer", "An output layer that looks at hidden vectors alone.")
      .def("topk", &topk_plain, "hidden"_a, "log_prob"_a, "token"_a)
      .def("topk", &topk, "hidden"_a, "log_prob"_a, "token"_a,
           "Write the k best tokens of each row of hidden [R, D] into log_prob and token [R, k].")
      .def("log_prob", &log_prob, "hidden"_a, "token"_a, "Log probability [R] of a token of each row.")
      .def("closer_normalizers", &closer_normalizers, "hidden"_a,
           "The closer normalizer [R] of each row, and how far it may be off [R]; scan and preview have it.")
      .def("unnormalized", &RowLayer::unnormalized, nb::keep_alive<0, 1>(),
           "The layer with logits for log probabilities; None where it has none.");
}

void bind_layers(nb::module_& module) {
  nb::class_<ExactLayer, RowLayer>(module, "ExactLayer")
      .def("__init__", &construct_exact, "weight"_a, "bias"_a, "isa"_a = "auto", "deferred"_a = false);
  nb::class_<ScanLayer, RowLayer>(module, "ScanLayer")
      .def("__init__", &construct_scan, "weight"_a, "bias"_a, "isa"_a = "auto", "trust"_a = 1.0f)
      .def("topk_details", &topk_details, "hidden"_a, "k"_a, "normalize"_a = true,
           "log_prob, token, normalizer, and how many tokens took exact logits.");
  nb::class_<SuppressedLayer, OutputLayer>(module, "SuppressedLayer")
      .def("__init__", &construct_suppressed, "layer"_a, "suppressed"_a, nb::keep_alive<1, 2>());
  nb::class_<LayerByLanguage, OutputLayer>(module, "LayerByLanguage")
      .def("__init__", &construct_by_language, "per"_a, "scopes"_a, "layers"_a, nb::keep_alive<1, 4>());
}

}  // namespace

LayerBinding::LayerBinding(Bind bind) { layer_bindings().push_back(bind); }

void bind_output_layers(nb::module_& module) {
  bind_interface(module);
  bind_layers(module);
  for (const Bind bind : layer_bindings()) bind(module);
}

}  // namespace sharpbeam
