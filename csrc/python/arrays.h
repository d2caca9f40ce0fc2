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

// Any array on the CPU, read only. The checks below say what is wrong with it, where a narrower type would only
// make nanobind list signatures.
using AnyArray = nanobind::ndarray<nanobind::ro, nanobind::device::cpu>;

constexpr int64_t kAnySize = -1;  // a size that `checked` does not look at

// "[2, 3]"
inline std::string shape_text(const AnyArray& array) {
  std::string text = "[";
  for (size_t i = 0; i < array.ndim(); ++i) text += (i ? ", " : "") + std::to_string(array.shape(i));
  return text + "]";
}

// The data of `array`, which must be C-contiguous, of type T and of the given shape (kAnySize: any size).
// Throws std::invalid_argument naming the argument, what came and what is allowed.
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

// The memory of an array, which is kept alive.
inline Array shared(const AnyArray& array, const float* data) { return {std::make_shared<AnyArray>(array), data}; }

// An array that results are written into.
using WritableArray = nanobind::ndarray<nanobind::device::cpu>;

template <typename T>
T* writable(const WritableArray& array, const char* name, std::initializer_list<int64_t> shape) {
  return const_cast<T*>(checked<T>(AnyArray(array), name, shape));
}

// A C-contiguous array of float, double or int32, [rows, columns] or [rows], by the buffer protocol, for calls of few
// microseconds: it takes half the time of nanobind::ndarray, which comes by DLPack. Writable unless T is const.
// Anything else leaves the call to the next overload: the one that says what is wrong, or takes what has no buffer.
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

// An uninitialised NumPy array that Python owns; `data` is where to write.
template <typename T>
struct NewArray {
  T* data;
  nanobind::object array;
};

template <typename T>
NewArray<T> new_array(std::initializer_list<size_t> shape) {
  size_t size = 1;
  for (size_t n : shape) size *= n;
  T* data = new T[size ? size : 1];
  nanobind::capsule owner(data, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  nanobind::ndarray<nanobind::numpy, T> array(data, shape, owner);
  return {data, nanobind::cast(array)};
}

}  // namespace sharpbeam
