// quickbeam._core: RecurrentModel and RecurrentDecoding.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "models/recurrent.h"

namespace nb = nanobind;

namespace quickbeam {
namespace {

// The value of an enum fact, by its place in `names`.
template <typename Enum>
Enum choice(nb::dict facts, const char* key, std::initializer_list<const char*> names) {
  const std::string value = nb::cast<std::string>(facts[key]);
  int index = 0;
  for (const char* name : names) {
    if (value == name) return static_cast<Enum>(index);
    ++index;
  }
  std::string allowed;
  for (const char* name : names) allowed += (allowed.empty() ? "" : ", ") + std::string(name);
  throw std::invalid_argument(std::string(key) + " is '" + value + "'; it must be one of " + allowed + ".");
}

// Facts as in RecurrentConfig (models/recurrent/config.py); the ones about ids and the output layer are not needed.
RecurrentConfig read_config(nb::dict facts) {
  const auto size = [&](const char* key) { return nb::cast<int64_t>(facts[key]); };
  RecurrentConfig config;
  config.source_vocab_size = size("source_vocab_size");
  config.target_vocab_size = size("target_vocab_size");
  config.embedding_dim = size("embedding_dim");
  config.encoder_layers = size("encoder_layers");
  config.encoder_dim = size("encoder_dim");
  config.decoder_dim = size("decoder_dim");
  config.attention_dim = size("attention_dim");
  config.fc_layers = size("fc_layers");
  config.fc_dim = size("fc_dim");
  config.top_dim = size("top_dim");
  config.hidden_dim = size("hidden_dim");
  config.decoder_cell = choice<DecoderCell>(facts, "decoder_cell", {"conditional", "attentional"});
  config.attention = choice<AttentionKind>(facts, "attention", {"mlp", "tanh_dot"});
  config.top = choice<Top>(facts, "top", {"none", "tanh", "gru"});
  config.readout = choice<Readout>(facts, "readout", {"none", "linear", "tanh"});
  config.shared_embedding = nb::cast<bool>(facts["shared_embedding"]);
  return config;
}

// Shares the memory of the NumPy arrays: the model keeps those alive that it does not pack.
Weights read_weights(nb::dict tensors) {
  std::map<std::string, Tensor> weights;
  for (auto [key, value] : tensors) {
    const std::string name = nb::cast<std::string>(key);
    const AnyArray array = nb::cast<AnyArray>(value);
    const bool vector = array.ndim() == 1;
    const float* data = vector ? checked<float>(array, name.c_str(), {kAnySize})
                               : checked<float>(array, name.c_str(), {kAnySize, kAnySize});
    Tensor tensor{Array(std::make_shared<AnyArray>(array), data), {}};
    for (size_t i = 0; i < array.ndim(); ++i) tensor.shape.push_back(static_cast<int64_t>(array.shape(i)));
    weights.emplace(name, std::move(tensor));
  }
  return Weights(std::move(weights));
}

std::shared_ptr<RecurrentModel> build(nb::dict facts, nb::dict tensors, const std::string& isa) {
  return std::make_shared<RecurrentModel>(read_config(facts), read_weights(tensors), table_named(isa.c_str()));
}

// A decoding run as Python sees it. Other Python threads go on during a call, so a mutex keeps calls of one run apart.
class Run {
 public:
  explicit Run(std::shared_ptr<const RecurrentModel> model) : decoding_(std::move(model)) {}

  nb::object admit(AnyArray request, AnyArray token, AnyArray length) {
    const auto count = static_cast<int64_t>(request.ndim() ? request.shape(0) : 0);
    const auto* indices = checked<int32_t>(request, "request", {kAnySize});
    const Sources sources{checked<int32_t>(token, "token", {kAnySize}), checked<int32_t>(length, "length", {count}),
                          count, static_cast<int64_t>(token.size())};
    NewArray<int32_t> handles = new_array<int32_t>({static_cast<size_t>(count)});
    alone([&] { decoding_.admit(indices, sources, handles.data); });
    return handles.array;
  }

  nb::tuple step(AnyArray request, AnyArray state, AnyArray token) {
    const auto* requests = checked<int32_t>(request, "request", {kAnySize});
    const size_t rows = request.shape(0);
    const auto wanted = static_cast<int64_t>(rows);
    const auto* states = checked<int32_t>(state, "state", {wanted});
    const auto* tokens = checked<int32_t>(token, "token", {wanted});
    const auto width = static_cast<size_t>(decoding_.model().config().hidden_dim);
    NewArray<float> hidden = new_array<float>({rows, width});
    NewArray<int32_t> handles = new_array<int32_t>({rows});
    alone([&] { decoding_.step(requests, states, tokens, wanted, hidden.data, handles.data); });
    return nb::make_tuple(hidden.array, handles.array);
  }

  void retain(AnyArray state) {
    const auto* states = checked<int32_t>(state, "state", {kAnySize});
    alone([&] { decoding_.retain(states, static_cast<int64_t>(state.size())); });
  }

  void evict(AnyArray request) {
    const auto* requests = checked<int32_t>(request, "request", {kAnySize});
    alone([&] { decoding_.evict(requests, static_cast<int64_t>(request.size())); });
  }

 private:
  template <typename Call>
  void alone(Call call) {
    nb::gil_scoped_release release;
    std::lock_guard<std::mutex> lock(mutex_);
    call();
  }

  RecurrentDecoding decoding_;
  std::mutex mutex_;
};

}  // namespace

void bind_recurrent(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<RecurrentModel>(module, "RecurrentModel",
                             "The packed weights of a recurrent translation model; any number of runs share them.")
      .def(nb::new_(&build), "facts"_a, "tensors"_a, "isa"_a,
           "Facts as in RecurrentConfig, float32 arrays by name (not to be written to again), and a table's name or "
           "'auto'.")
      .def_prop_ro("isa", [](const RecurrentModel& model) { return model.table().name; });
  nb::class_<Run>(module, "RecurrentDecoding", "The caches of one decoding run; see quickbeam.models.door.Decoding.")
      .def(nb::init<std::shared_ptr<RecurrentModel>>(), "model"_a)
      .def("admit", &Run::admit, "request"_a, "token"_a, "length"_a,
           "Encode sources that stand one behind the other in `token`; returns the handles of their initial states.")
      .def("step", &Run::step, "request"_a, "state"_a, "token"_a,
           "Feed one token to each row; returns hidden [R, D] and the handles of the new states [R].")
      .def("retain", &Run::retain, "state"_a, "Free every state but the named ones.")
      .def("evict", &Run::evict, "request"_a, "Forget the sources of the named requests.");
}

}  // namespace quickbeam
