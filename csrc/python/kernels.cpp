// sharpbeam._core: the kernel tables, and their kernels one by one, which tests compare with the references.
#include "kernels/table.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/plain.h"
#include "kernels/profile.h"
#include "linear/linear.h"
#include "python/arrays.h"
#include "python/bindings.h"

namespace sharpbeam {
namespace {

using TwoFloatArrays = Tuple<FloatArray, FloatArray>;

// kAnySize where there is no such axis: for `checked`, which says so.
int64_t size_of(const AnyArray& array, size_t axis) {
  return axis < array.ndim() ? static_cast<int64_t>(array.shape(axis)) : kAnySize;
}

// A copy of `x` [n], changed in place by `kernel`.
template <typename Kernel>
FloatArray changed(const Floats& x, Kernel kernel) {
  const float* from = checked(x, "x", {kAnySize});
  auto out = new_array<float>({x.shape(0)});
  std::copy(from, from + x.shape(0), out.data);
  kernel(out.data, size_of(x, 0));
  return out.array;
}

// A kernel that changes x [n] in place, and one that also reads y [n].
template <auto kKernel>
FloatArray elementwise(Floats x, const char* isa) {
  return changed(x, table_named(isa).*kKernel);
}
template <auto kKernel>
FloatArray elementwise_pair(Floats x, Floats y, const char* isa) {
  const float* other = checked(y, "y", {size_of(x, 0)});
  return changed(x, [&](float* to, int64_t n) { (table_named(isa).*kKernel)(to, other, n); });
}

FloatArray softmax(Floats x, const char* isa, int64_t rows) {
  return changed(x, [&](float* y, int64_t n) {
    if (rows < 1 || n % rows != 0)
      throw std::invalid_argument("rows is " + std::to_string(rows) + "; it must divide " + std::to_string(n));
    table_named(isa).softmax(y, rows, n / rows);
  });
}

FloatArray gru(Floats input, Floats hidden, Floats state, const char* isa) {
  const float* old = checked(state, "state", {kAnySize});
  const int64_t dim = size_of(state, 0);
  const float* from_input = checked(input, "input", {3 * dim});
  const float* from_hidden = checked(hidden, "hidden", {3 * dim});
  auto next = new_array<float>({state.shape(0)});
  table_named(isa).gru(from_input, from_hidden, old, next.data, dim);
  return next.array;
}

TwoFloatArrays lstm(Floats input, Floats hidden, Floats cell, const char* isa) {
  const float* old = checked(cell, "cell", {kAnySize});
  const int64_t dim = size_of(cell, 0);
  const float* from_input = checked(input, "input", {4 * dim});
  const float* from_hidden = checked(hidden, "hidden", {4 * dim});
  auto next = new_array<float>({cell.shape(0)}), output = new_array<float>({cell.shape(0)});
  table_named(isa).lstm(from_input, from_hidden, old, next.data, output.data, dim);
  return nb::make_tuple(next.array, output.array);
}

TwoFloatArrays ssru(Floats input, Floats cell, const char* isa) {
  const float* old = checked(cell, "cell", {kAnySize});
  const int64_t dim = size_of(cell, 0);
  const float* from = checked(input, "input", {2 * dim});
  auto next = new_array<float>({cell.shape(0)}), output = new_array<float>({cell.shape(0)});
  table_named(isa).ssru(from, old, next.data, output.data, dim);
  return nb::make_tuple(next.array, output.array);
}

FloatArray mlp_scores(Floats query, Floats keys, Floats weight, const char* isa) {
  const float* k = checked(keys, "keys", {kAnySize, kAnySize});
  const int64_t positions = size_of(keys, 0), dim = size_of(keys, 1);
  const float* q = checked(query, "query", {dim});
  const float* w = checked(weight, "weight", {dim});
  const Kernels& table = table_named(isa);
  std::vector<double> all_keys(positions * dim), own(dim);
  table.mlp_keys(k, all_keys.data(), positions * dim);
  table.mlp_keys(q, own.data(), dim);
  auto scores = new_array<float>({keys.shape(0)});
  table.mlp_scores(own.data(), all_keys.data(), std::vector<double>(w, w + dim).data(), scores.data, positions, dim);
  return scores.array;
}

FloatArray dot_scores(Floats query, Floats keys, const char* isa) {
  const float* k = checked(keys, "keys", {kAnySize, kAnySize});
  const int64_t positions = size_of(keys, 0), dim = size_of(keys, 1);
  const float* q = checked(query, "query", {dim});
  auto scores = new_array<float>({keys.shape(0)});
  table_named(isa).dot_scores(q, k, scores.data, positions, dim);
  return scores.array;
}

// The rows of `array`, one pointer each.
std::vector<const float*> row_pointers(const float* array, int64_t rows, int64_t width) {
  std::vector<const float*> result;
  for (int64_t row = 0; row < rows; ++row) result.push_back(array + row * width);
  return result;
}

void check_heads(int64_t heads, int64_t dim) {
  if (heads < 1 || dim % heads != 0)
    throw std::invalid_argument("heads is " + std::to_string(heads) + "; it must divide " + std::to_string(dim));
}

FloatArray multihead_scores(Floats query, Floats keys, int64_t heads, const char* isa) {
  const float* k = checked(keys, "keys", {kAnySize, kAnySize});
  const int64_t positions = size_of(keys, 0), dim = size_of(keys, 1);
  check_heads(heads, dim);
  const float* q = checked(query, "query", {dim});
  auto scores = new_array<float>({static_cast<size_t>(heads), keys.shape(0)});
  table_named(isa).multihead_scores(q, row_pointers(k, positions, dim).data(), 0, scores.data, positions, positions,
                                    heads, dim / heads);
  return scores.array;
}

FloatArray multihead_context(Floats weights, Floats values, const char* isa) {
  const float* v = checked(values, "values", {kAnySize, kAnySize});
  const int64_t positions = size_of(values, 0), dim = size_of(values, 1);
  const float* w = checked(weights, "weights", {kAnySize, positions});
  const int64_t heads = size_of(weights, 0);
  check_heads(heads, dim);
  auto out = new_array<float>({values.shape(1)});
  table_named(isa).multihead_context(w, positions, row_pointers(v, positions, dim).data(), 0, out.data, positions,
                                     heads, dim / heads);
  return out.array;
}

// The layer norm of x + added, without a `bias` the RMS norm.
TwoFloatArrays add_norm(Floats x, Floats added, Floats weight, std::optional<Floats> bias, float epsilon,
                        const char* isa) {
  const float* from = checked(x, "x", {kAnySize});
  const int64_t size = size_of(x, 0);
  const float* more = checked(added, "added", {size});
  const float* w = checked(weight, "weight", {size});
  const float* b = bias ? checked(*bias, "bias", {size}) : nullptr;
  auto total = new_array<float>({x.shape(0)}), y = new_array<float>({x.shape(0)});
  std::copy(from, from + size, total.data);
  b ? table_named(isa).add_norm(total.data, more, w, b, epsilon, y.data, size)
    : table_named(isa).add_rms_norm(total.data, more, w, epsilon, y.data, size);
  return nb::make_tuple(total.array, y.array);
}

Tuple<IdArray, double> quantize_weights(Scores weight, float scale, const char* isa) {
  const double* from = checked(weight, "weight", {kAnySize});
  std::vector<uint8_t> q(weight.shape(0));
  const double error = table_named(isa).quantize_weights(from, size_of(weight, 0), scale, q.data());
  auto out = new_array<int32_t>({q.size()});
  std::copy(q.begin(), q.end(), out.data);
  return nb::make_tuple(out.array, error);
}

float log_sum_exp(Floats x, const char* isa) {
  const float* from = checked(x, "x", {kAnySize});
  return table_named(isa).log_sum_exp(from, size_of(x, 0));
}

Tuple<FloatArray, IdArray> top_k(Floats x, int64_t k, const char* isa) {
  const float* from = checked(x, "x", {kAnySize});
  if (k < 1 || k > size_of(x, 0))
    throw std::invalid_argument("k is " + std::to_string(k) + "; it must be from 1 to " + std::to_string(x.shape(0)));
  auto values = new_array<float>({static_cast<size_t>(k)});
  auto indices = new_array<int32_t>({static_cast<size_t>(k)});
  table_named(isa).top_k(from, size_of(x, 0), k, values.data, indices.data);
  return nb::make_tuple(values.array, indices.array);
}

using Work = nb::typed<nb::dict, Tuple<nb::str, nb::str>, Tuple<int64_t, int64_t>>;

Work kernel_work() {
  Work result;
  const char* const parts[] = {"", "decoder", "output"};
  for (int part = 0; part < kStepParts; ++part)
    for (int kernel = 0; kernel <= kKernelCount; ++kernel) {
      const KernelWork work = take_work(static_cast<StepPart>(part), kernel);
      if (work.calls == 0) continue;
      result[nb::make_tuple(parts[part], kernel < kKernelCount ? profiled_name(kernel) : "")] =
          nb::make_tuple(work.calls, work.nanoseconds);
    }
  return result;
}

using Names = nb::typed<nb::list, nb::str>;

Names table_names() {
  Names names;
  for (const char* const* name = kernel_names(); *name != nullptr; ++name) names.append(*name);
  return names;
}

Names profiled_names() {
  Names names;
  for (int kernel = 0; kernel < kKernelCount; ++kernel) names.append(profiled_name(kernel));
  return names;
}

int64_t run_peak(const char* compute_type, int64_t steps, const char* isa) {
  const ComputeType type = compute_type_named(compute_type);
  const auto peak = type == ComputeType::float32 ? &Kernels::peak_float32
                    : type == ComputeType::int16 ? &Kernels::peak_int16
                                                 : &Kernels::peak_int8;
  return (table_named(isa).*peak)(steps);
}

void bind_cells_and_attention(nb::module_& module) {
  module.def("gru", &gru, "input"_a, "hidden"_a, "state"_a, "isa"_a = "auto");
  module.def("lstm", &lstm, "input"_a, "hidden"_a, "cell"_a, "isa"_a = "auto");
  module.def("ssru", &ssru, "input"_a, "cell"_a, "isa"_a = "auto");
  module.def("mlp_scores", &mlp_scores, "query"_a, "keys"_a, "weight"_a, "isa"_a = "auto");
  module.def("dot_scores", &dot_scores, "query"_a, "keys"_a, "isa"_a = "auto");
  module.def("multihead_scores", &multihead_scores, "query"_a, "keys"_a, "heads"_a, "isa"_a = "auto");
  module.def("multihead_context", &multihead_context, "weights"_a, "values"_a, "isa"_a = "auto");
}

void bind_vectors(nb::module_& module) {
  module.def("tanh", &elementwise<&Kernels::tanh>, "x"_a, "isa"_a = "auto");
  module.def("relu", &elementwise<&Kernels::relu>, "x"_a, "isa"_a = "auto");
  module.def("gelu", &elementwise<&Kernels::gelu>, "x"_a, "isa"_a = "auto");
  module.def("gelu_tanh", &elementwise<&Kernels::gelu_tanh>, "x"_a, "isa"_a = "auto");
  const auto swish = [](Floats x, float slope, const char* isa) {
    return changed(x, [&](float* y, int64_t n) { table_named(isa).swish(y, slope, n); });
  };
  module.def("swish", swish, "x"_a, "slope"_a, "isa"_a = "auto");
  module.def("add", &elementwise_pair<&Kernels::add>, "x"_a, "y"_a, "isa"_a = "auto");
  module.def("mul", &elementwise_pair<&Kernels::mul>, "x"_a, "y"_a, "isa"_a = "auto");
  module.def("softmax", &softmax, "x"_a, "isa"_a = "auto", "rows"_a = 1);
  module.def("add_norm", &add_norm, "x"_a, "added"_a, "weight"_a, "bias"_a.none(), "epsilon"_a, "isa"_a = "auto");
  module.def("quantize_weights", &quantize_weights, "weight"_a, "scale"_a, "isa"_a = "auto",
             "The quantized weights + 128, and the squared norm of the quantization error.");
  module.def("log_sum_exp", &log_sum_exp, "x"_a, "isa"_a = "auto");
  module.def("top_k", &top_k, "x"_a, "k"_a, "isa"_a = "auto");
}

}  // namespace

const Kernels& table_named(const char* isa) {
  if (std::string(isa) == "profiled") return profiled_kernels();
  if (std::string(isa) == "plain") return plain_kernels();
  return std::string(isa) == "auto" ? kernels() : kernels(isa);
}

void bind_kernels(nb::module_& module) {
  module.def("table_names", &table_names, "Names of the kernel tables that this machine can run, lowest first.");
  module.def("table_name", [] { return kernels().name; }, "Name of the table in use.");
  module.def("profiled_kernels", &profiled_names, "Names of all kernels.");
  module.def("kernel_work", &kernel_work,
             "The work of the kernels of the table 'profiled' in this thread since the last call.\n\n"
             "Calls and nanoseconds, by (part, kernel). The parts of a step that the core runs are\n"
             "'decoder' and 'output', whose own time has the kernel ''; all other calls have the part ''.");
  module.def("run_peak", &run_peak, "compute_type"_a, "steps"_a, "isa"_a = "auto",
             "Runs a plain loop of the instructions of a matmul; returns the number of its multiply-adds.");
  bind_vectors(module);
  bind_cells_and_attention(module);
}

}  // namespace sharpbeam
