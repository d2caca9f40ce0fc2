// sharpbeam._core: PreviewLayer.
#include "output/preview.h"

#include <nanobind/stl/optional.h>

#include <optional>

#include "python/gil.h"
#include "python/output_layers.h"

namespace sharpbeam {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

void construct(PreviewLayer* self, Floats weight, Floats bias, Floats basis, Floats shift, Floats center, Scores rows,
               Scores balance, Ids tokens, Ids start, Ids coordinates, Scores trust, double whole_trust,
               double remainder, float share, float exact, float refined, float summed, double near, double far,
               double spread, double unsure, bool estimates, const char* isa) {
  const OutputArrays arrays(weight, bias);
  const int64_t levels = coordinates.ndim() ? static_cast<int64_t>(coordinates.shape(0)) : 0;
  const LowBitView view{checked<float>(basis, "basis", {arrays.dim, arrays.dim}),
                        checked<float>(shift, "shift", {arrays.dim}),
                        checked<float>(center, "center", {arrays.dim}),
                        checked<double>(rows, "rows", {arrays.vocab, arrays.dim}),
                        checked<double>(balance, "balance", {arrays.dim}),
                        levels,
                        checked<int32_t>(tokens, "tokens", {arrays.vocab}),
                        checked<int32_t>(start, "start", {levels + 1}),
                        checked<int32_t>(coordinates, "coordinates", {levels}),
                        checked<double>(trust, "trust", {levels}),
                        whole_trust,
                        remainder};
  new (self) PreviewLayer(arrays.weight, arrays.bias, arrays.vocab, arrays.dim, view,
                          {share, exact, refined, summed, near, far, spread, unsure}, estimates, table_named(isa));
}

// (log_prob, token, normalizer, counts); with request, score, width and eos as a beam search asks.
Tuple<FloatArray, IdArray, FloatArray, nb::typed<nb::dict, nb::str, int64_t>> topk_details(
    const PreviewLayer& self, Floats hidden, int64_t k, bool normalize, std::optional<Ids> request,
    std::optional<Scores> score, int64_t width, int32_t eos, std::optional<Floats> floor) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  const auto count = static_cast<int64_t>(hidden.shape(0));
  check_k(k, self.vocab());
  BeamView beam{nullptr, width, self.vocab(), eos, {}};
  LayerRows rows{x, count};
  if (request && score) {
    if (width < 1) throw std::invalid_argument("width is " + std::to_string(width) + "; it must be 1 or more");
    rows.request = checked<int32_t>(*request, "request", {count});
    beam.score = checked<double>(*score, "score", {count});
    rows.beam = &beam;
  }
  if (floor) rows.floor = checked<float>(*floor, "floor", {count});
  auto log_prob = new_array<float>({hidden.shape(0), static_cast<size_t>(k)});
  auto token = new_array<int32_t>({hidden.shape(0), static_cast<size_t>(k)});
  auto total = new_array<float>({hidden.shape(0)});
  ProvenCounts counts;
  {
    const WithoutGil released;
    self.rank(rows, k, normalize, log_prob.data, token.data, total.data, counts);
  }
  nb::dict found;
  found["rows"] = counts.rows;
  found["previewed"] = counts.previewed;
  found["compared"] = counts.compared;
  found["refined"] = counts.refined;
  found["exact"] = counts.exact;
  found["skipped"] = counts.skipped;
  found["whole"] = counts.whole;
  return nb::make_tuple(log_prob.array, token.array, total.array, found);
}

Tuple<FloatArray, int64_t, int64_t> normalizers(const PreviewLayer& self, Floats hidden, float share, float exact,
                                                float refined, float summed, double near, double far) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  auto total = new_array<float>({hidden.shape(0)});
  ProvenCounts counts;
  {
    const WithoutGil released;
    self.totals(x, static_cast<int64_t>(hidden.shape(0)), {share, exact, refined, summed, near, far}, total.data,
                counts);
  }
  return nb::make_tuple(total.array, counts.refined, counts.exact);
}

void bind(nb::module_& module) {
  nb::class_<PreviewLayer, RowLayer>(module, "PreviewLayer")
      .def("__init__", &construct, "weight"_a, "bias"_a, "basis"_a, "shift"_a, "center"_a, "rows"_a, "balance"_a,
           "tokens"_a, "start"_a, "coordinates"_a, "trust"_a, "whole_trust"_a, "remainder"_a, "share"_a, "exact"_a,
           "refined"_a, "summed"_a, "near"_a, "far"_a, "spread"_a, "unsure"_a, "estimates"_a, "isa"_a = "auto")
      .def("topk_details", &topk_details, "hidden"_a, "k"_a, "normalize"_a = true, "request"_a = nb::none(),
           "score"_a = nb::none(), "width"_a = 1, "eos"_a = -1, "floor"_a = nb::none(),
           "log_prob, token, normalizer, and counts: rows, and tokens that each stage left.")
      .def("normalizers", &normalizers, "hidden"_a, "share"_a, "exact"_a, "refined"_a, "summed"_a, "near"_a, "far"_a,
           "The normalizer [R] of each row by another choice, how many tokens were looked up, and how many of them "
           "exactly.");
}

const LayerBinding binding(bind);

}  // namespace
}  // namespace sharpbeam
