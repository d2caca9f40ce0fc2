#include "output/exact.h"

#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "output/certified.h"
#include "output/scan.h"
#include "output/suppressed.h"
#include "python/arrays.h"
#include "python/bindings.h"
#include "search/forward.h"

namespace sharpbeam {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// The arguments of an output layer that is made of weight and bias.
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

void construct(ExactLayer* self, AnyArray weight, AnyArray bias, const char* isa) {
  const Layer layer(weight, bias);
  new (self) ExactLayer(layer.w, layer.b, layer.vocab, layer.dim, table_named(isa));
}

void construct_scan(ScanLayer* self, AnyArray weight, AnyArray bias, const char* isa, float trust) {
  const Layer layer(weight, bias);
  new (self) ScanLayer(shared(weight, layer.w), layer.b, layer.vocab, layer.dim, table_named(isa), trust);
}

void construct_certified(CertifiedLayer* self, AnyArray weight, AnyArray bias, AnyArray basis, AnyArray shift,
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
  new (self) CertifiedLayer(shared(weight, layer.w), layer.b, layer.vocab, layer.dim, view, table_named(isa), tolerance,
                            trust);
}

// (total, error)
nb::tuple log_total(const CertifiedLayer& self, AnyArray hidden, int64_t refined, float tolerance) {
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

// (log_prob, token, total, rescored); `choice` are more arguments of the output layer's own.
template <typename OutputLayer, typename... Choice>
nb::tuple topk_with_total(const OutputLayer& self, AnyArray hidden, int64_t k, Choice... choice) {
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

nb::tuple topk(const ExactLayer& self, AnyArray hidden, int64_t k, bool normalise) {
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
template <typename OutputLayer>
class RowLayer : public LayerRun {
 public:
  RowLayer(const OutputLayer& layer, bool normalise) : layer_(layer), normalise_(normalise) {}

  int64_t dim() const override { return layer_.dim(); }
  int64_t vocab() const override { return layer_.vocab(); }

  void topk(const float* hidden, const int32_t*, int64_t rows, int64_t k, float* log_prob, int32_t* token) override {
    if constexpr (std::is_same_v<OutputLayer, ExactLayer>) {
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
  const OutputLayer& layer_;
  bool normalise_;
};

template <typename OutputLayer>
std::unique_ptr<LayerRun> open(const OutputLayer& self, bool normalise) {
  return std::make_unique<RowLayer<OutputLayer>>(self, normalise);
}

void construct_suppressed(SuppressedRun* self, LayerRun& layer, AnyArray suppressed) {
  const int32_t* words = checked<int32_t>(suppressed, "suppressed", {kAnySize});
  new (self) SuppressedRun(layer, words, static_cast<int64_t>(suppressed.size()));
}

template <typename OutputLayer, typename... Choice>
nb::object log_prob(const OutputLayer& self, AnyArray hidden, AnyArray token, Choice... choice) {
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

void bind_output_layers(nb::module_& module) {
  nb::class_<ExactLayer>(module, "ExactLayer")
      .def("__init__", &construct, "weight"_a, "bias"_a, "isa"_a = "auto")
      .def("topk", &topk, "hidden"_a, "k"_a, "normalise"_a = true)
      .def("log_prob", &log_prob<ExactLayer, bool>, "hidden"_a, "token"_a, "normalise"_a = true)
      .def("open", &open<ExactLayer>, "normalise"_a = true, nb::keep_alive<0, 1>())
      .def_prop_ro("vocab_size", &ExactLayer::vocab)
      .def_prop_ro("dim", &ExactLayer::dim);
  nb::class_<ScanLayer>(module, "ScanLayer")
      .def("__init__", &construct_scan, "weight"_a, "bias"_a, "isa"_a = "auto", "trust"_a = 1.0f)
      .def("topk", &topk_with_total<ScanLayer, bool>, "hidden"_a, "k"_a, "normalise"_a = true)
      .def("log_prob", &log_prob<ScanLayer, bool>, "hidden"_a, "token"_a, "normalise"_a = true)
      .def("open", &open<ScanLayer>, "normalise"_a = true, nb::keep_alive<0, 1>())
      .def_prop_ro("vocab_size", &ScanLayer::vocab)
      .def_prop_ro("dim", &ScanLayer::dim);
  nb::class_<CertifiedLayer>(module, "CertifiedLayer")
      .def("__init__", &construct_certified, "weight"_a, "bias"_a, "basis"_a, "shift"_a, "centre"_a, "rows"_a,
           "words"_a, "start"_a, "coordinates"_a, "square"_a, "mixed"_a, "head_norm"_a, "rest"_a, "balance"_a,
           "isa"_a = "auto", "tolerance"_a = 1e-3f, "trust"_a = 1.0f)
      .def("topk", &topk_with_total<CertifiedLayer, bool>, "hidden"_a, "k"_a, "normalise"_a = true)
      .def("log_prob", &log_prob<CertifiedLayer, bool>, "hidden"_a, "token"_a, "normalise"_a = true)
      .def("open", &open<CertifiedLayer>, "normalise"_a = true, nb::keep_alive<0, 1>())
      .def("log_total", &log_total, "hidden"_a, "refined"_a, "tolerance"_a)
      .def_prop_ro("vocab_size", &CertifiedLayer::vocab)
      .def_prop_ro("dim", &CertifiedLayer::dim);
  nb::class_<SuppressedRun, LayerRun>(module, "SuppressedRun")
      .def("__init__", &construct_suppressed, "layer"_a, "suppressed"_a, nb::keep_alive<1, 2>());
}

}  // namespace sharpbeam
