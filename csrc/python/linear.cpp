// sharpbeam._core: linear layers, and the memory of weights in mapped files.
#include "linear/linear.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <stdexcept>
#include <string>

#include "core/file_pages.h"
#include "python/arrays.h"
#include "python/bindings.h"

namespace sharpbeam {
namespace {

void construct(Linear* self, Floats weight, std::optional<Floats> bias, const std::string& compute_type) {
  const float* w = checked(weight, "weight", {kAnySize, kAnySize});
  const auto out = static_cast<int64_t>(weight.shape(0)), in = static_cast<int64_t>(weight.shape(1));
  if (out < 1 || in < 1)
    throw std::invalid_argument("weight has the shape " + shape_text(weight) + "; both sizes must be at least 1");
  const float* b = bias ? checked(*bias, "bias", {out}) : nullptr;
  new (self) Linear(compute_type_named(compute_type), w, out, in, in, b);
}

FloatArray apply(const Linear& self, Floats x, const char* isa) {
  const float* from = checked(x, "x", {kAnySize, self.in()});
  auto y = new_array<float>({x.shape(0), static_cast<size_t>(self.out())});
  LinearInput scratch;
  self.apply(table_named(isa), from, self.in(), y.data, self.out(), static_cast<int64_t>(x.shape(0)), scratch);
  return y.array;
}

// Keeps the memory of `array` alive for as long as any view of it.
struct SharedPages {
  SharedPages(const AnyArray& array, int file) : kept(array), pages(array.data(), array.nbytes(), file) {}
  AnyArray kept;
  FilePages pages;
};

using Bytes = nb::ndarray<nb::numpy, const uint8_t>;

Bytes file_pages(AnyArray array, int file) {
  if (array.ndim() != 1 || array.dtype() != nb::dtype<uint8_t>() || array.shape(0) == 0 || array.stride(0) != 1)
    throw std::invalid_argument("array is not a mapped file; it must be [n] uint8, n at least 1");
  SharedPages* shared = new SharedPages(array, file);
  nb::capsule owner(shared, [](void* p) noexcept { delete static_cast<SharedPages*>(p); });
  return {static_cast<const uint8_t*>(array.data()), {array.shape(0)}, owner};
}

void release(Floats array) {
  const float* data = checked(array, "array", {kAnySize, kAnySize});
  release_pages(data, data + array.size());
}

}  // namespace

void bind_linear(nb::module_& module) {
  nb::class_<Linear>(module, "Linear", "y = x W^T + b in float32, int16 or int8 (csrc/linear/linear.h).")
      .def("__init__", &construct, "weight"_a, "bias"_a = nb::none(), "compute_type"_a = "float32")
      .def("apply", &apply, "x"_a, "isa"_a = "auto", "y [R, out] of x [R, in].");
  module.def("file_pages", &file_pages, "array"_a, "file"_a,
             nb::sig("def file_pages(array: NDArray[numpy.uint8], file: int) -> NDArray[numpy.uint8]"),
             "A read-only view of `array` [n], an unmodified mapping of the open `file`.\n\n"
             "Packing tensors in the view releases their pages; other memory would lose its contents.");
  module.def("release_pages", &release, "array"_a,
             "Release the pages of an array [rows, columns] float32, where it is in a `file_pages`.");
}

}  // namespace sharpbeam
