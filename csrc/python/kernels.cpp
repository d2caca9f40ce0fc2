// sharpbeam._core: the kernels one by one, which tests compare on each table with the references, and Linear.
#include "kernels/table.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/file_pages.h"
#include "kernels/plain.h"
#include "kernels/profile.h"
#include "linear/linear.h"
#include "python/arrays.h"
#include "python/bindings.h"

namespace sharpbeam {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

int64_t size_of(const AnyArray& array, size_t axis) { return static_cast<int64_t>(array.shape(axis)); }

// A copy of `x` [n], changed in place by `kernel`.
template <typename Kernel>
nb::object changed(const AnyArray& x, Kernel kernel) {
  const float* from = checked<float>(x, "x", {kAnySize});
  auto out = new_array<float>({x.shape(0)});
  std::copy(from, from + x.shape(0), out.data);
  kernel(out.data, size_of(x, 0));
  return out.array;
}

// A copy of `x` [n], changed in place by a kernel that reads `y` [n] too.
template <auto kKernel>
nb::object combined(AnyArray x, AnyArray y, const char* isa) {
  const float* other = checked<float>(y, "y", {size_of(x, 0)});
  return changed(x, [&](float* to, int64_t n) { (table_named(isa).*kKernel)(to, other, n); });
}

nb::object gru(AnyArray input, AnyArray hidden, AnyArray state, const char* isa) {
  const float* old = checked<float>(state, "state", {kAnySize});
  const int64_t dim = size_of(state, 0);
  const float* from_input = checked<float>(input, "input", {3 * dim});
  const float* from_hidden = checked<float>(hidden, "hidden", {3 * dim});
  auto next = new_array<float>({state.shape(0)});
  table_named(isa).gru(from_input, from_hidden, old, next.data, dim);
  return next.array;
}

// (quantized weights + 128 as int32, squared norm of the error)
nb::tuple quantize_weights(AnyArray weight, float scale, const char* isa) {
  const double* from = checked<double>(weight, "weight", {kAnySize});
  std::vector<uint8_t> bytes(weight.shape(0));
  const double lost = table_named(isa).quantize_weights(from, size_of(weight, 0), scale, bytes.data());
  auto out = new_array<int32_t>({bytes.size()});
  std::copy(bytes.begin(), bytes.end(), out.data);
  return nb::make_tuple(out.array, lost);
}

nb::tuple lstm(AnyArray input, AnyArray hidden, AnyArray cell, const char* isa) {
  const float* old = checked<float>(cell, "cell", {kAnySize});
  const int64_t dim = size_of(cell, 0);
  const float* from_input = checked<float>(input, "input", {4 * dim});
  const float* from_hidden = checked<float>(hidden, "hidden", {4 * dim});
  auto next = new_array<float>({cell.shape(0)});
  auto output = new_array<float>({cell.shape(0)});
  table_named(isa).lstm(from_input, from_hidden, old, next.data, output.data, dim);
  return nb::make_tuple(next.array, output.array);
}

nb::object mlp_scores(AnyArray query, AnyArray keys, AnyArray weight, const char* isa) {
  const float* k = checked<float>(keys, "keys", {kAnySize, kAnySize});
  const int64_t positions = size_of(keys, 0), dim = size_of(keys, 1);
  const float* q = checked<float>(query, "query", {dim});
  const float* w = checked<float>(weight, "weight", {dim});
  const Kernels& table = table_named(isa);
  std::vector<double> all_keys(positions * dim), own(dim);
  table.mlp_keys(k, all_keys.data(), positions * dim);
  table.mlp_keys(q, own.data(), dim);
  auto scores = new_array<float>({keys.shape(0)});
  table.mlp_scores(own.data(), all_keys.data(), std::vector<double>(w, w + dim).data(), scores.data, positions, dim);
  return scores.array;
}

nb::object dot_scores(AnyArray query, AnyArray keys, const char* isa) {
  const float* k = checked<float>(keys, "keys", {kAnySize, kAnySize});
  const int64_t positions = size_of(keys, 0), dim = size_of(keys, 1);
  const float* q = checked<float>(query, "query", {dim});
  auto scores = new_array<float>({keys.shape(0)});
  table_named(isa).dot_scores(q, k, scores.data, positions, dim);
  return scores.array;
}

nb::object weighted_sum(AnyArray weights, AnyArray values, const char* isa) {
  const float* v = checked<float>(values, "values", {kAnySize, kAnySize});
  const int64_t positions = size_of(values, 0), dim = size_of(values, 1);
  const float* w = checked<float>(weights, "weights", {positions});
  auto out = new_array<float>({values.shape(1)});
  table_named(isa).weighted_sum(w, v, out.data, positions, dim);
  return out.array;
}

// The rows of `array`, one pointer each.
std::vector<const float*> row_pointers(const float* array, int64_t rows, int64_t width) {
  std::vector<const float*> result;
  for (int64_t row = 0; row < rows; ++row) result.push_back(array + row * width);
  return result;
}

nb::object multihead_scores(AnyArray query, AnyArray keys, int64_t heads, const char* isa) {
  const float* k = checked<float>(keys, "keys", {kAnySize, kAnySize});
  const int64_t positions = size_of(keys, 0), dim = size_of(keys, 1);
  const float* q = checked<float>(query, "query", {dim});
  auto scores = new_array<float>({static_cast<size_t>(heads), keys.shape(0)});
  table_named(isa).multihead_scores(q, row_pointers(k, positions, dim).data(), 0, scores.data, positions, positions,
                                    heads, dim / heads);
  return scores.array;
}

nb::object multihead_context(AnyArray weights, AnyArray values, const char* isa) {
  const float* v = checked<float>(values, "values", {kAnySize, kAnySize});
  const int64_t positions = size_of(values, 0), dim = size_of(values, 1);
  const float* w = checked<float>(weights, "weights", {kAnySize, positions});
  const int64_t heads = size_of(weights, 0);
  auto out = new_array<float>({values.shape(1)});
  table_named(isa).multihead_context(w, positions, row_pointers(v, positions, dim).data(), 0, out.data, positions,
                                     heads, dim / heads);
  return out.array;
}

nb::tuple add_norm(AnyArray x, AnyArray added, AnyArray weight, AnyArray bias, float epsilon, const char* isa) {
  const float* from = checked<float>(x, "x", {kAnySize});
  const int64_t size = size_of(x, 0);
  const float* more = checked<float>(added, "added", {size});
  const float* w = checked<float>(weight, "weight", {size});
  const float* b = checked<float>(bias, "bias", {size});
  auto total = new_array<float>({x.shape(0)}), y = new_array<float>({x.shape(0)});
  std::copy(from, from + size, total.data);
  table_named(isa).add_norm(total.data, more, w, b, epsilon, y.data, size);
  return nb::make_tuple(total.array, y.array);
}

nb::tuple ssru(AnyArray input, AnyArray cell, const char* isa) {
  const float* old = checked<float>(cell, "cell", {kAnySize});
  const int64_t dim = size_of(cell, 0);
  const float* from = checked<float>(input, "input", {2 * dim});
  auto next = new_array<float>({cell.shape(0)}), output = new_array<float>({cell.shape(0)});
  table_named(isa).ssru(from, old, next.data, output.data, dim);
  return nb::make_tuple(next.array, output.array);
}

float log_sum_exp(AnyArray x, const char* isa) {
  return table_named(isa).log_sum_exp(checked<float>(x, "x", {kAnySize}), size_of(x, 0));
}

nb::tuple top_k(AnyArray x, int64_t k, const char* isa) {
  const float* from = checked<float>(x, "x", {kAnySize});
  if (k < 1 || k > size_of(x, 0)) {
    throw std::invalid_argument("k is " + std::to_string(k) + "; it must be from 1 to " + std::to_string(x.shape(0)));
  }
  auto values = new_array<float>({static_cast<size_t>(k)});
  auto indices = new_array<int32_t>({static_cast<size_t>(k)});
  table_named(isa).top_k(from, size_of(x, 0), k, values.data, indices.data);
  return nb::make_tuple(values.array, indices.array);
}

void construct(Linear* self, AnyArray weight, nb::object bias, const std::string& compute_type) {
  const float* w = checked<float>(weight, "weight", {kAnySize, kAnySize});
  const int64_t out = size_of(weight, 0), in = size_of(weight, 1);
  const ComputeType type = compute_type_named(compute_type);
  if (bias.is_none()) {
    new (self) Linear(type, w, out, in, in, nullptr);
  } else {
    const AnyArray array = nb::cast<AnyArray>(bias);
    new (self) Linear(type, w, out, in, in, checked<float>(array, "bias", {out}));
  }
}

nb::object apply(const Linear& self, AnyArray x, const char* isa) {
  const float* from = checked<float>(x, "x", {kAnySize, self.in()});
  auto y = new_array<float>({x.shape(0), static_cast<size_t>(self.out())});
  const Kernels& table = table_named(isa);
  LinearInput scratch;
  self.apply(table, from, self.in(), y.data, self.out(), size_of(x, 0), scratch);
  return y.array;
}

nb::dict kernel_work() {
  nb::dict result;
  const char* const parts[] = {"", "decoder", "output"};
  for (int part = 0; part < kStepParts; ++part)
    for (int kernel = 0; kernel <= kKernelCount; ++kernel) {
      const KernelWork work = take_work(static_cast<StepPart>(part), kernel);
      if (work.calls == 0) continue;
      result[nb::make_tuple(parts[part], kernel < kKernelCount ? profiled_name(kernel) : "")] =
          nb::make_tuple(work.calls, work.nanoseconds, work.bytes, work.operations);
    }
  return result;
}

nb::list names() {
  nb::list list;
  for (const char* const* name = kernel_names(); *name != nullptr; ++name) list.append(*name);
  return list;
}

}  // namespace

// Keeps the memory of `array` alive for as long as any view of it.
struct SharedPages {
  SharedPages(const AnyArray& array, int file) : kept(array), pages(array.data(), array.nbytes(), file) {}
  AnyArray kept;
  FilePages pages;
};

nb::ndarray<nb::numpy, const uint8_t> file_pages(AnyArray array, int file) {
  if (array.ndim() != 1 || array.dtype() != nb::dtype<uint8_t>() || array.shape(0) == 0 || array.stride(0) != 1)
    throw std::invalid_argument("array is not a mapped file; it must be [n] uint8, n at least 1");
  SharedPages* shared = new SharedPages(array, file);
  nb::capsule owner(shared, [](void* p) noexcept { delete static_cast<SharedPages*>(p); });
  return {static_cast<const uint8_t*>(array.data()), {array.shape(0)}, owner};
}

const Kernels& table_named(const char* isa) {
  if (std::string(isa) == "profiled") return profiled_kernels();
  if (std::string(isa) == "plain") return plain_kernels();
  return std::string(isa) == "auto" ? kernels() : kernels(isa);
}

void bind_kernels(nb::module_& module) {
  module.def("table_names", &names, "Names of the kernel tables that this machine can run, lowest first.");
  module.def("table_name", [] { return kernels().name; }, "Name of the table in use.");
  module.def(
      "profiled_kernels",
      [] {
        nb::list result;
        for (int kernel = 0; kernel < kKernelCount; ++kernel) result.append(profiled_name(kernel));
        return result;
      },
      "Names of all kernels.");
  module.def("kernel_work", &kernel_work,
             "The work of the kernels of the table 'profiled' in this thread since the last call: calls, nanoseconds, "
             "bytes and "
             "operations, by (part, kernel). The parts of a step that the core runs are 'decoder' and 'output', whose "
             "own time "
             "has the kernel ''; all other calls have the part ''.");
  module.def(
      "file_pages", &file_pages, "array"_a, "file"_a,
      "A read-only view of `array` [n], an unmodified mapping of the open `file`: packing tensors in it releases their "
      "pages, which other memory would lose.");
  module.def(
      "release_pages",
      [](AnyArray array) {
        const float* data = checked<float>(array, "array", {kAnySize, kAnySize});
        release_pages(data, data + array.size());
      },
      "array"_a, "Release the pages of an array [rows, columns] float32, where it is in a `file_pages`.");
  nb::class_<Linear>(module, "Linear")
      .def("__init__", &construct, "weight"_a, "bias"_a = nb::none(), "compute_type"_a = "float32")
      .def("apply", &apply, "x"_a, "isa"_a = "auto");
  module.def(
      "tanh", [](AnyArray x, const char* isa) { return changed(x, table_named(isa).tanh); }, "x"_a, "isa"_a = "auto");
  module.def(
      "sigmoid", [](AnyArray x, const char* isa) { return changed(x, table_named(isa).sigmoid); }, "x"_a,
      "isa"_a = "auto");
  module.def(
      "softmax",
      [](AnyArray x, const char* isa, int64_t rows) {
        return changed(x, [&](float* y, int64_t n) {
          if (rows < 1 || n % rows != 0)
            throw std::invalid_argument("rows is " + std::to_string(rows) + "; it must divide " + std::to_string(n));
          table_named(isa).softmax(y, rows, n / rows);
        });
      },
      "x"_a, "isa"_a = "auto", "rows"_a = 1);
  module.def("quantize_weights", &quantize_weights, "weight"_a, "scale"_a, "isa"_a = "auto");
  module.def("gru", &gru, "input"_a, "hidden"_a, "state"_a, "isa"_a = "auto");
  module.def("lstm", &lstm, "input"_a, "hidden"_a, "cell"_a, "isa"_a = "auto");
  module.def("mlp_scores", &mlp_scores, "query"_a, "keys"_a, "weight"_a, "isa"_a = "auto");
  module.def("dot_scores", &dot_scores, "query"_a, "keys"_a, "isa"_a = "auto");
  module.def("weighted_sum", &weighted_sum, "weights"_a, "values"_a, "isa"_a = "auto");
  module.def("multihead_scores", &multihead_scores, "query"_a, "keys"_a, "heads"_a, "isa"_a = "auto");
  module.def("multihead_context", &multihead_context, "weights"_a, "values"_a, "isa"_a = "auto");
  module.def("add_norm", &add_norm, "x"_a, "added"_a, "weight"_a, "bias"_a, "epsilon"_a, "isa"_a = "auto");
  module.def("ssru", &ssru, "input"_a, "cell"_a, "isa"_a = "auto");
  module.def(
      "relu", [](AnyArray x, const char* isa) { return changed(x, table_named(isa).relu); }, "x"_a, "isa"_a = "auto");
  module.def(
      "gelu", [](AnyArray x, const char* isa) { return changed(x, table_named(isa).gelu); }, "x"_a, "isa"_a = "auto");
  module.def(
      "swish",
      [](AnyArray x, float slope, const char* isa) {
        return changed(x, [&](float* y, int64_t n) { table_named(isa).swish(y, slope, n); });
      },
      "x"_a, "slope"_a, "isa"_a = "auto");
  module.def("add", &combined<&Kernels::add>, "x"_a, "y"_a, "isa"_a = "auto");
  module.def("mul", &combined<&Kernels::mul>, "x"_a, "y"_a, "isa"_a = "auto");
  module.def("log_sum_exp", &log_sum_exp, "x"_a, "isa"_a = "auto");
  module.def("top_k", &top_k, "x"_a, "k"_a, "isa"_a = "auto");
}

}  // namespace sharpbeam
