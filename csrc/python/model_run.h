// Weights from NumPy arrays, and the decoding run of a model as Python sees it.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "models/common/sources.h"
#include "models/common/weights.h"
#include "python/arrays.h"
#include "python/gil.h"
#include "search/forward.h"

namespace sharpbeam {

using Dict = nanobind::typed<nanobind::dict, nanobind::str, nanobind::any>;
using Tensors = nanobind::typed<nanobind::dict, nanobind::str, nanobind::any>;

// Reads a dict with the fields of ComputeOptions, `type` as compute_type.
inline ComputeOptions read_compute_options(const Dict& options) {
  return {compute_type_named(nanobind::cast<std::string>(options["compute_type"])),
          nanobind::cast<int64_t>(options["precomputed_embeddings"]),
          nanobind::cast<bool>(options["precomputed_attention"]), nanobind::cast<bool>(options["merge_states"])};
}

// A matrix of integers, whose scales have its name with ".scale".
inline Tensor read_integers(const AnyArray& array, const std::string& name, const Tensors& tensors) {
  const std::string scale_name = name + ".scale";
  if (array.ndim() != 2 || array.stride(1) != 1 || array.stride(0) != static_cast<int64_t>(array.shape(1)) ||
      !tensors.contains(scale_name.c_str()))
    throw std::invalid_argument(name + " holds integers; it must be a C-contiguous matrix, and need " + scale_name);
  const auto rows = static_cast<int64_t>(array.shape(0));
  const AnyArray scale = nanobind::cast<AnyArray>(tensors[scale_name.c_str()]);
  const float* scales = checked<float>(scale, scale_name.c_str(), {rows});
  return {nullptr,
          {rows, static_cast<int64_t>(array.shape(1))},
          {std::make_shared<AnyArray>(array), static_cast<const int8_t*>(array.data())},
          shared(scale, scales)};
}

constexpr nanobind::dlpack::dtype kFloat16{static_cast<uint8_t>(nanobind::dlpack::dtype_code::Float), 16, 1};

inline Tensor read_halves(const AnyArray& array, const std::string& name) {
  if (array.ndim() != 2 || array.stride(1) != 1 || array.stride(0) != static_cast<int64_t>(array.shape(1)))
    throw std::invalid_argument(name + " holds float16; it must be a C-contiguous matrix");
  return {.data = nullptr,
          .shape = {static_cast<int64_t>(array.shape(0)), static_cast<int64_t>(array.shape(1))},
          .halves = {std::make_shared<AnyArray>(array), static_cast<const uint16_t*>(array.data())}};
}

// Shares the memory of the NumPy arrays: the model keeps alive those that it does not pack.
inline Weights read_weights(const Tensors& tensors, const Dict& options) {
  std::map<std::string, Tensor> weights;
  for (auto [key, value] : tensors) {
    const std::string name = nanobind::cast<std::string>(key);
    const AnyArray array = nanobind::cast<AnyArray>(value);
    if (array.dtype() == nanobind::dtype<int8_t>()) {
      weights.emplace(name, read_integers(array, name, tensors));
      continue;
    }
    if (array.dtype() == kFloat16) {
      weights.emplace(name, read_halves(array, name));
      continue;
    }
    const bool vector = array.ndim() == 1;
    const float* data = vector ? checked<float>(array, name.c_str(), {kAnySize})
                               : checked<float>(array, name.c_str(), {kAnySize, kAnySize});
    Tensor tensor{shared(array, data), {}};
    for (size_t i = 0; i < array.ndim(); ++i) tensor.shape.push_back(static_cast<int64_t>(array.shape(i)));
    weights.emplace(name, std::move(tensor));
  }
  return Weights(std::move(weights), read_compute_options(options));
}

// Calls release the GIL, so a mutex serializes the calls of one run.
template <typename Model, typename Decoding>
class Run : public ModelRun {
 public:
  explicit Run(std::shared_ptr<Model> model) : decoding_(std::move(model)) {}

  IdArray admit_arrays(Ids request, Ids token, Ids length) {
    const auto count = static_cast<int64_t>(request.ndim() ? request.shape(0) : 0);
    const auto* indices = checked(request, "request", {kAnySize});
    const Sources sources{checked(token, "token", {kAnySize}), checked(length, "length", {count}), count,
                          static_cast<int64_t>(token.size())};
    NewArray<int32_t> handles = new_array<int32_t>({static_cast<size_t>(count)});
    {
      const WithoutGil released;
      admit(indices, sources, handles.data);
    }
    return handles.array;
  }

  int64_t dim() const override { return decoding_.model().config().hidden_dim; }
  const Kernels& table() const override { return decoding_.model().table(); }

  // The next four are called without the GIL.
  void admit(const int32_t* request, const Sources& sources, int32_t* handles) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    decoding_.admit(request, sources, handles);
  }

  void evict(const int32_t* request, int64_t count) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    decoding_.evict(request, count);
  }

  void step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows, float* hidden,
            int32_t* handles) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    decoding_.step(request, state, token, rows, hidden, handles);
  }

  void retain(const int32_t* state, int64_t count) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    decoding_.retain(state, count);
  }

  Tuple<FloatArray, IdArray> step_arrays(Ids request, Ids state, Ids token) {
    const auto* requests = checked(request, "request", {kAnySize});
    const size_t rows = request.shape(0);
    const auto wanted = static_cast<int64_t>(rows);
    const auto* states = checked(state, "state", {wanted});
    const auto* tokens = checked(token, "token", {wanted});
    NewArray<float> hidden = new_array<float>({rows, static_cast<size_t>(dim())});
    NewArray<int32_t> handles = new_array<int32_t>({rows});
    alone([&] { decoding_.step(requests, states, tokens, wanted, hidden.data, handles.data); });
    return nanobind::make_tuple(hidden.array, handles.array);
  }

  Tuple<FloatArray, IdArray> attend(Ids request, Ids state, Ids token) {
    const auto* requests = checked(request, "request", {kAnySize});
    const size_t rows = request.shape(0);
    const auto wanted = static_cast<int64_t>(rows);
    const auto* states = checked(state, "state", {wanted});
    const auto* tokens = checked(token, "token", {wanted});
    int64_t width = 0;
    alone([&] { width = decoding_.longest(requests, wanted); });
    NewArray<float> attention = new_array<float>({rows, static_cast<size_t>(width)});
    NewArray<int32_t> handles = new_array<int32_t>({rows});
    alone([&] { decoding_.attend(requests, states, tokens, wanted, attention.data, width, handles.data); });
    return nanobind::make_tuple(attention.array, handles.array);
  }

  void retain_array(Ids state) {
    const auto* states = checked(state, "state", {kAnySize});
    alone([&] { decoding_.retain(states, static_cast<int64_t>(state.size())); });
  }

  void evict_array(Ids request) {
    const auto* requests = checked(request, "request", {kAnySize});
    const WithoutGil released;
    evict(requests, static_cast<int64_t>(request.size()));
  }

  static void bind(nanobind::module_& module, const char* name) {
    using namespace nanobind::literals;
    nanobind::class_<Run, ModelRun> run(module, name,
                                        "The caches of one decoding run; see sharpbeam.models.interface.Decoding.");
    run.def(nanobind::init<std::shared_ptr<Model>>(), "model"_a)
        .def("admit", &Run::admit_arrays, "request"_a, "token"_a, "length"_a, kGuard,
             "Encode sources, which are concatenated in `token`; returns the handles of their initial states.")
        .def("step", &Run::step_arrays, "request"_a, "state"_a, "token"_a, kGuard,
             "Feed one token to each row; returns hidden [R, D] and the handles of the new states [R].")
        .def("retain", &Run::retain_array, "state"_a, "Free every state but the given ones.")
        .def("evict", &Run::evict_array, "request"_a, "Remove the given requests.");
    if constexpr (requires(Decoding& decoding) { decoding.longest(nullptr, 0); })
      run.def("attend", &Run::attend, "request"_a, "state"_a, "token"_a, kGuard,
              "Feed one token to each row; returns attention weights [R, S] and the handles of the new states [R].");
  }

 private:
  template <typename Call>
  void alone(Call call) {
    const WithoutGil released;
    std::lock_guard<std::mutex> lock(mutex_);
    call();
  }

  Decoding decoding_;
  std::mutex mutex_;
};

}  // namespace sharpbeam
