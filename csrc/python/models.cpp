// sharpbeam._core: the models and their decoding runs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "models/gru/model.h"
#include "models/lstm/lstm_attention.h"
#include "models/lstm/lstm_lm.h"
#include "models/transformer/model.h"
#include "python/bindings.h"
#include "python/config.h"
#include "python/gil.h"
#include "python/model_run.h"

namespace sharpbeam {
namespace {

template <typename Model, typename Config>
std::shared_ptr<Model> build(Dict config, Tensors tensors, const std::string& isa, Dict options) {
  const Config facts = read_config<Config>(config);
  const auto weights = read_weights(tensors, options);
  const Kernels& table = table_named(isa.c_str());
  const WithoutGil released;  // a server serves others while it packs
  return std::make_shared<Model>(facts, weights, table);
}

template <typename Model, typename Config, typename Decoding>
void bind_model(nb::module_& module, const char* model, const char* run, const char* text) {
  nb::class_<Model>(module, model, text)
      .def(
          nb::new_(&build<Model, Config>), "config"_a, "tensors"_a, "isa"_a, "options"_a,
          "`config` has the fields of the model's config, `tensors` float32 arrays by name, which must not be written\n"
          "to afterwards. `isa` names a kernel table or is 'auto'. `options` says how to compute: the fields of\n"
          "MachineOptions that csrc/models/common/compute_options.h has.")
      .def_prop_ro("isa", [](const Model& self) { return self.table().name; }, "Name of the kernel table.");
  Run<Model, Decoding>::bind(module, run);
}

}  // namespace

void bind_models(nb::module_& module) {
  bind_model<GruModel, GruConfig, GruDecoding>(module, "GruModel", "GruDecoding",
                                               "The packed weights of a GRU translation model; runs share them.");
  bind_model<LstmLm, LstmLmConfig, LstmLmDecoding>(module, "LstmLm", "LstmLmDecoding",
                                                   "The packed weights of an LSTM language model; runs share them.");
  bind_model<LstmAttention, LstmAttentionConfig, LstmAttentionDecoding>(
      module, "LstmAttention", "LstmAttentionDecoding",
      "The packed weights of an LSTM translation model with attention; runs share them.");
  bind_model<Transformer, TransformerConfig, TransformerDecoding>(
      module, "Transformer", "TransformerDecoding", "The packed weights of a transformer; runs share them.");
}

}  // namespace sharpbeam
