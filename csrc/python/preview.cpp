// sharpbeam._core: PreviewLayer.
#include "output/preview.h"

#include <nanobind/stl/optional.h>

#include <optional>

#include "python/gil.h"
#include "python/output_layers.h"

namespace sharpbeam {
namespace {

void construct(PreviewLayer* self, Floats weight, Floats bias, Floats basis, Floats shift, Floats center, Floats words,
               Ids lengths, Ids codes, Floats scale, Floats offset, Floats deviation, float deviations, float depth,
               double near, double far, double spread, const char* isa) {
  const OutputArrays arrays(weight, bias);
  const int64_t count = lengths.ndim() ? static_cast<int64_t>(lengths.shape(0)) : 0;
  const PreviewView view{checked<float>(basis, "basis", {arrays.dim, arrays.dim}),
                         checked<float>(shift, "shift", {arrays.dim}),
                         checked<float>(center, "center", {arrays.dim}),
                         checked<float>(words, "words", {kCodeWords, arrays.dim}),
                         checked<int32_t>(lengths, "lengths", {count}),
                         count,
                         checked<int32_t>(codes, "codes", {arrays.vocab, (count + 7) / 8}),
                         checked<float>(scale, "scale", {arrays.vocab}),
                         checked<float>(offset, "offset", {arrays.vocab}),
                         checked<float>(deviation, "deviation", {arrays.vocab}),
                         deviations};
  const Kernels& table = table_named(isa);
  const WithoutGil released;
  new (self) PreviewLayer(arrays.weight, arrays.b, arrays.vocab, arrays.dim, view, {depth, near, far, spread}, table);
}

// (log_prob, token, normalizer, counts); with request, score and width as a beam search asks.
Tuple<FloatArray, IdArray, FloatArray, nb::typed<nb::dict, nb::str, int64_t>> topk_details(
    const PreviewLayer& self, Floats hidden, int64_t k, bool normalize, std::optional<Ids> request,
    std::optional<Scores> score, int64_t width) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  const auto count = static_cast<int64_t>(hidden.shape(0));
  check_k(k, self.vocab());
  BeamView beam{nullptr, width, self.vocab(), -1, {}};
  LayerRows rows{x, count};
  if (request && score) {
    if (width < 1) throw std::invalid_argument("width is " + std::to_string(width) + "; it must be 1 or more");
    rows.request = checked<int32_t>(*request, "request", {count});
    beam.score = checked<double>(*score, "score", {count});
    rows.beam = &beam;
  }
  auto log_prob = new_array<float>({hidden.shape(0), static_cast<size_t>(k)});
  auto token = new_array<int32_t>({hidden.shape(0), static_cast<size_t>(k)});
  auto total = new_array<float>({hidden.shape(0)});
  PreviewCounts counts;
  {
    const WithoutGil released;
    self.rank(rows, k, normalize, log_prob.data, token.data, total.data, counts);
  }
  nb::dict by_name;
  by_name["rows"] = counts.rows;
  by_name["exact"] = counts.exact;
  by_name["skipped"] = counts.skipped;
  by_name["whole"] = counts.whole;
  return nb::make_tuple(log_prob.array, token.array, total.array, by_name);
}

Tuple<FloatArray, FloatArray> normalizers(const PreviewLayer& self, Floats hidden, float depth, double near,
                                          double far) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  auto total = new_array<float>({hidden.shape(0)}), share = new_array<float>({hidden.shape(0)});
  {
    const WithoutGil released;
    self.totals(x, static_cast<int64_t>(hidden.shape(0)), {depth, near, far, 0.0}, total.data, share.data);
  }
  return nb::make_tuple(total.array, share.array);
}

void bind(nb::module_& module) {
  nb::class_<PreviewLayer, RowLayer>(module, "PreviewLayer")
      .def("__init__", &construct, "weight"_a, "bias"_a, "basis"_a, "shift"_a, "center"_a, "words"_a, "lengths"_a,
           "codes"_a, "scale"_a, "offset"_a, "deviation"_a, "deviations"_a, "depth"_a, "near"_a, "far"_a, "spread"_a,
           "isa"_a = "auto")
      .def("topk_details", &topk_details, "hidden"_a, "k"_a, "normalize"_a = true, "request"_a = nb::none(),
           "score"_a = nb::none(), "width"_a = 1,
           "log_prob, token, normalizer, and counts: rows, tokens with exact logits, rows skipped or taken whole.")
      .def("normalizers", &normalizers, "hidden"_a, "depth"_a, "near"_a, "far"_a,
           "The normalizer [R] of each row by another choice, and the share [R] of it that is not exact.");
}

const LayerBinding binding(bind);

}  // namespace
}  // namespace sharpbeam
