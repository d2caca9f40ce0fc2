// NumPy arrays at the border: checked on the way in, owned by Python on the way out.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "core/buffer.h"

namespace sharpbeam {

// Any array on the CPU, read only. `checked` says what is wrong with one, where a narrower type would only make
// nanobind list signatures.
using AnyArray = nanobind::ndarray<nanobind::ro, nanobind::device::cpu>;

// An array that results are written into.
using WritableArray = nanobind::ndarray<nanobind::device::cpu>;

// Such an array with the number type that a function expects, which the stub shows by its name in sharpbeam/types.py.
template <typename T, typename Base = AnyArray>
struct ArrayOf : Base {
  static constexpr auto kName = [] {
    if constexpr (std::is_same_v<T, float>)
      return nanobind::detail::const_name("Floats");
    else if constexpr (std::is_same_v<T, double>)
      return nanobind::detail::const_name("Scores");
    else if constexpr (std::is_same_v<T, int32_t>)
      return nanobind::detail::const_name("Ids");
    else
      return nanobind::detail::const_name("NDArray");
  }();
};
using Floats = ArrayOf<float>;
using Scores = ArrayOf<double>;
using Ids = ArrayOf<int32_t>;
using WritableFloats = ArrayOf<float, WritableArray>;
using WritableIds = ArrayOf<int32_t, WritableArray>;

constexpr int64_t kAnySize = -1;  // a size that `checked` does not look at

// "[2, 3]"
inline std::string shape_text(const AnyArray& array) {
  std::string text = "[";
  for (size_t i = 0; i < array.ndim(); ++i) text += (i ? ", " : "") + std::to_string(array.shape(i));
  return text + "]";
}

// The data of `array`, which must be C-contiguous, of type T and of the given shape (kAnySize: any size).
// Throws std::invalid_argument with the name of the argument, what it got and what is allowed.
template <typename T>
const T* checked(const AnyArray& array, const char* name, std::initializer_list<int64_t> shape) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int32_t>);
  const char* type = std::is_same_v<T, float> ? "float32" : std::is_same_v<T, double> ? "float64" : "int32";
  bool same = array.ndim() == shape.size();
  size_t axis = 0;
  for (int64_t size : shape) {
    if (same && size != kAnySize && array.shape(axis) != static_cast<size_t>(size)) same = false;
    ++axis;
  }
  if (!same) {
    std::string wanted;
    for (int64_t size : shape) {
      wanted += (wanted.empty() ? "" : ", ") + (size == kAnySize ? std::string("any") : std::to_string(size));
    }
    throw std::invalid_argument(std::string(name) + " has the shape " + shape_text(array) + "; it must be [" + wanted +
                                "]");
  }
  if (array.dtype() != nanobind::dtype<T>()) {
    throw std::invalid_argument(std::string(name) + " has another dtype than " + type +
                                "; convert it with .astype(np." + type + ")");
  }
  int64_t stride = 1;
  for (size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) > 1 && array.stride(i) != stride && array.size() > 0) {
      throw std::invalid_argument(std::string(name) + " is not C-contiguous; pass np.ascontiguousarray(" + name + ")");
    }
    stride *= static_cast<int64_t>(array.shape(i));
  }
  return static_cast<const T*>(array.data());
}

template <typename T>
const T* checked(const ArrayOf<T>& array, const char* name, std::initializer_list<int64_t> shape) {
  return checked<T>(static_cast<const AnyArray&>(array), name, shape);
}

// The memory of an array, which is kept alive.
inline Array shared(const AnyArray& array, const float* data) { return {std::make_shared<AnyArray>(array), data}; }

template <typename T>
T* writable(const ArrayOf<T, WritableArray>& array, const char* name, std::initializer_list<int64_t> shape) {
  return const_cast<T*>(checked<T>(AnyArray(array), name, shape));
}

// A C-contiguous array of float, double or int32, [rows, columns] or [rows], by the buffer protocol: for calls of a few
// microseconds, since it takes half the time of nanobind::ndarray, which uses DLPack. Writable unless T is const. Any
// other object leaves the call to the next overload, which says what is wrong or accepts objects without a buffer.
template <typename T, int kDims = 2>
class PlainArray {
 public:
  explicit PlainArray(nanobind::handle array) {
    using Number = std::remove_const_t<T>;
    constexpr char kType = std::is_same_v<Number, float> ? 'f' : std::is_same_v<Number, double> ? 'd' : 'i';
    constexpr int kWritable = std::is_const_v<T> ? 0 : PyBUF_WRITABLE;
    if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | kWritable) != 0) {
      PyErr_Clear();
      throw nanobind::next_overload();
    }
    if (view_.ndim != kDims || view_.format == nullptr || view_.format[0] != kType || view_.format[1] != 0) {
      PyBuffer_Release(&view_);
      throw nanobind::next_overload();
    }
  }
  ~PlainArray() { PyBuffer_Release(&view_); }
  PlainArray(const PlainArray&) = delete;
  PlainArray& operator=(const PlainArray&) = delete;

  T* data() const { return static_cast<T*>(view_.buf); }
  int64_t rows() const { return view_.shape[0]; }
  int64_t columns() const
    requires(kDims == 2)
  {
    return view_.shape[1];
  }

 private:
  Py_buffer view_;
};

// A NumPy array of T as a function returns it.
template <typename T>
class ReturnedArray : public nanobind::object {
  static constexpr auto kName = ArrayOf<T>::kName;

 public:
  static constexpr auto Name = kName;
  explicit ReturnedArray(nanobind::object array) : nanobind::object(std::move(array)) {}
};

using FloatArray = ReturnedArray<float>;
using IdArray = ReturnedArray<int32_t>;

// A new, uninitialized NumPy array; `data` is where to write.
template <typename T>
struct NewArray {
  T* data;
  ReturnedArray<T> array;
};

template <typename T>
NewArray<T> new_array(std::initializer_list<size_t> shape) {
  size_t size = 1;
  for (size_t n : shape) size *= n;
  T* data = new T[size ? size : 1];
  nanobind::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  nanobind::ndarray<nanobind::numpy, T> array(data, shape, owner);
  return {data, ReturnedArray<T>(nanobind::cast(array))};
}

// A tuple of such arrays and other values, each T as the stub shows it.
template <typename... T>
using Tuple = nanobind::typed<nanobind::tuple, T...>;

}  // namespace sharpbeam

namespace nanobind::detail {

template <typename T, typename Base>
struct type_caster<sharpbeam::ArrayOf<T, Base>> {
  using Array = sharpbeam::ArrayOf<T, Base>;
  NB_TYPE_CASTER(Array, Array::kName)

  bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) noexcept {
    make_caster<Base> array;
    if (!array.from_python(source, flags, cleanup)) return false;
    static_cast<Base&>(value) = std::move(array.value);
    return true;
  }
  static handle from_cpp(const Array&, rv_policy, cleanup_list*) noexcept = delete;
};

}  // namespace nanobind::detail
