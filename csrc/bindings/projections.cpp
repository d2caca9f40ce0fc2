#include "projections/exact.h"

#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "forward.h"
#include "projections/certified.h"
#include "projections/scan.h"
#include "projections/suppressed.h"

namespace sharpbeam {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// The arguments of a projection that is made of weight and bias.
struct Layer {
  Layer(const AnyArray& weight, const AnyArray& bias)
      : w(checked<float>(weight, "weight", {kAnySize, kAnySize})),
        vocab(static_cast<int64_t>(weight.shape(0))),
        dim(static_cast<int64_t>(weight.shape(1))),
        b(checked<float>(bias, "bias", {vocab})) {}
  const float* w;
  int64_t vocab, dim;
  const float* b;
};

void construct(ExactProjection* self, AnyArray weight, AnyArray bias, const char* isa) {
  const Layer layer(weight, bias);
  new (self) ExactProjection(layer.w, layer.b, layer.vocab, layer.dim, table_named(isa));
}

void construct_scan(ScanProjection* self, AnyArray weight, AnyArray bias, const char* isa, float trust) {
  const Layer layer(weight, bias);
  new (self) ScanProjection(shared(weight, layer.w), layer.b, layer.vocab, layer.dim, table_named(isa), trust);
}

void construct_certified(CertifiedProjection* self, AnyArray weight, AnyArray bias, AnyArray basis, AnyArray shift,
                         AnyArray centre, AnyArray rows, AnyArray words, AnyArray start, AnyArray coordinates,
                         AnyArray square, AnyArray mixed, AnyArray head_norm, double rest, double balance,
                         const char* isa, float tolerance, float trust) {
  const Layer layer(weight, bias);
  const int64_t levels = coordinates.ndim() ? static_cast<int64_t>(coordinates.shape(0)) : 0;
  const PreviewView view{checked<float>(basis, "basis", {layer.dim, layer.dim}),
                         checked<float>(shift, "shift", {layer.dim}),
                         checked<float>(centre, "centre", {layer.dim}),
                         checked<double>(rows, "rows", {layer.vocab, layer.dim}),
                         levels,
                         checked<int32_t>(words, "words", {layer.vocab}),
                         checked<int32_t>(start, "start", {levels + 1}),
                         checked<int32_t>(coordinates, "coordinates", {levels}),
                         checked<double>(square, "square", {levels, layer.dim}),
                         checked<double>(mixed, "mixed", {levels}),
                         checked<double>(head_norm, "head_norm", {levels}),
                         rest,
                         balance};
  new (self) CertifiedProjection(shared(weight, layer.w), layer.b, layer.vocab, layer.dim, view, table_named(isa),
                                 tolerance, trust);
}

// (total, error)
nb::tuple log_total(const CertifiedProjection& self, AnyArray hidden, int64_t refined, float tolerance) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  const size_t rows = hidden.shape(0);
  auto total = new_array<float>({rows});
  auto error = new_array<float>({rows});
  {
    nb::gil_scoped_release release;
    self.log_total(x, static_cast<int64_t>(rows), refined, tolerance, total.data, error.data);
  }
  return nb::make_tuple(total.array, error.array);
}

// (log_prob, token, total, rescored); `choice` are more arguments of the projection's own.
template <typename Projection, typename... Choice>
nb::tuple topk_with_total(const Projection& self, AnyArray hidden, int64_t k, Choice... choice) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  const size_t rows = hidden.shape(0), width = static_cast<size_t>(std::clamp<int64_t>(k, 0, self.vocab()));
  auto log_prob = new_array<float>({rows, width});
  auto token = new_array<int32_t>({rows, width});
  auto total = new_array<float>({rows});
  auto rescored = new_array<int32_t>({rows});
  {
    nb::gil_scoped_release release;
    self.topk(x, static_cast<int64_t>(rows), k, choice..., log_prob.data, token.data, total.data, rescored.data);
  }
  return nb::make_tuple(log_prob.array, token.array, total.array, rescored.array);
}

nb::tuple topk(const ExactProjection& self, AnyArray hidden, int64_t k, bool normalise) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  const size_t rows = hidden.shape(0), width = static_cast<size_t>(std::clamp<int64_t>(k, 0, self.vocab()));
  auto log_prob = new_array<float>({rows, width});
  auto token = new_array<int32_t>({rows, width});
  {
    nb::gil_scoped_release release;
    self.topk(x, static_cast<int64_t>(rows), k, normalise, log_prob.data, token.data);
  }
  return nb::make_tuple(log_prob.array, token.array);
}

// A layer that looks at hidden vectors alone, in a decoding run.
template <typename Projection>
class RowLayer : public LayerRun {
 public:
  RowLayer(const Projection& layer, bool normalise) : layer_(layer), normalise_(normalise) {}

  int64_t dim() const override { return layer_.dim(); }
  int64_t vocab() const override { return layer_.vocab(); }

  void topk(const float* hidden, const int32_t*, int64_t rows, int64_t k, float* log_prob, int32_t* token) override {
    if constexpr (std::is_same_v<Projection, ExactProjection>) {
      layer_.topk(hidden, rows, k, normalise_, log_prob, token);
    } else {
      thread_local std::vector<float> total;  // nobody asks for these
      thread_local std::vector<int32_t> rescored;
      total.resize(static_cast<size_t>(rows));
      rescored.resize(static_cast<size_t>(rows));
      layer_.topk(hidden, rows, k, normalise_, log_prob, token, total.data(), rescored.data());
    }
  }

 private:
  const Projection& layer_;
  bool normalise_;
};

template <typename Projection>
std::unique_ptr<LayerRun> open(const Projection& self, bool normalise) {
  return std::make_unique<RowLayer<Projection>>(self, normalise);
}

void construct_suppressed(SuppressedRun* self, LayerRun& layer, AnyArray suppressed) {
  const int32_t* words = checked<int32_t>(suppressed, "suppressed", {kAnySize});
  new (self) SuppressedRun(layer, words, static_cast<int64_t>(suppressed.size()));
}

template <typename Projection, typename... Choice>
nb::object log_prob(const Projection& self, AnyArray hidden, AnyArray token, Choice... choice) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  const int64_t rows = static_cast<int64_t>(hidden.shape(0));
  const int32_t* tokens = checked<int32_t>(token, "token", {rows});
  auto out = new_array<float>({hidden.shape(0)});
  {
    nb::gil_scoped_release release;
    self.log_prob(x, tokens, rows, choice..., out.data);
  }
  return out.array;
}

}  // namespace

void bind_projections(nb::module_& module) {
  nb::class_<ExactProjection>(module, "ExactProjection")
      .def("__init__", &construct, "weight"_a, "bias"_a, "isa"_a = "auto")
      .def("topk", &topk, "hidden"_a, "k"_a, "normalise"_a = true)
      .def("log_prob", &log_prob<ExactProjection, bool>, "hidden"_a, "token"_a, "normalise"_a = true)
      .def("open", &open<ExactProjection>, "normalise"_a = true, nb::keep_alive<0, 1>())
      .def_prop_ro("vocab_size", &ExactProjection::vocab)
      .def_prop_ro("dim", &ExactProjection::dim);
  nb::class_<ScanProjection>(module, "ScanProjection")
      .def("__init__", &construct_scan, "weight"_a, "bias"_a, "isa"_a = "auto", "trust"_a = 1.0f)
      .def("topk", &topk_with_total<ScanProjection, bool>, "hidden"_a, "k"_a, "normalise"_a = true)
      .def("log_prob", &log_prob<ScanProjection, bool>, "hidden"_a, "token"_a, "normalise"_a = true)
      .def("open", &open<ScanProjection>, "normalise"_a = true, nb::keep_alive<0, 1>())
      .def_prop_ro("vocab_size", &ScanProjection::vocab)
      .def_prop_ro("dim", &ScanProjection::dim);
  nb::class_<CertifiedProjection>(module, "CertifiedProjection")
      .def("__init__", &construct_certified, "weight"_a, "bias"_a, "basis"_a, "shift"_a, "centre"_a, "rows"_a,
           "words"_a, "start"_a, "coordinates"_a, "square"_a, "mixed"_a, "head_norm"_a, "rest"_a, "balance"_a,
           "isa"_a = "auto", "tolerance"_a = 1e-3f, "trust"_a = 1.0f)
      .def("topk", &topk_with_total<CertifiedProjection, bool>, "hidden"_a, "k"_a, "normalise"_a = true)
      .def("log_prob", &log_prob<CertifiedProjection, bool>, "hidden"_a, "token"_a, "normalise"_a = true)
      .def("open", &open<CertifiedProjection>, "normalise"_a = true, nb::keep_alive<0, 1>())
      .def("log_total", &log_total, "hidden"_a, "refined"_a, "tolerance"_a)
      .def_prop_ro("vocab_size", &CertifiedProjection::vocab)
      .def_prop_ro("dim", &CertifiedProjection::dim);
  nb::class_<SuppressedRun, LayerRun>(module, "SuppressedRun")
      .def("__init__", &construct_suppressed, "layer"_a, "suppressed"_a, nb::keep_alive<1, 2>());
}

}  // namespace sharpbeam
