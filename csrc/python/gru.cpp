// sharpbeam._core: GruModel and GruDecoding.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "models/gru/model.h"
#include "python/bindings.h"
#include "python/facts.h"
#include "python/run.h"

namespace nb = nanobind;

namespace sharpbeam {
namespace {

// Facts as in GruConfig (models/gru/config.py); the ones about ids and the output layer are not needed.
GruConfig read_config(nb::dict facts) {
  const auto size = [&](const char* key) { return nb::cast<int64_t>(facts[key]); };
  GruConfig config;
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
  config.top_start = choice<TopStart>(facts, "top_start", {"zero", "bottom"});
  config.readout = choice<Readout>(facts, "readout", {"none", "linear", "tanh"});
  config.shared_embedding = nb::cast<bool>(facts["shared_embedding"]);
  return config;
}

std::shared_ptr<GruModel> build(nb::dict facts, nb::dict tensors, const std::string& isa, nb::dict options) {
  return std::make_shared<GruModel>(read_config(facts), read_weights(tensors, options), table_named(isa.c_str()));
}

}  // namespace

void bind_recurrent(nb::module_& module) {
  bind_model<GruModel, GruDecoding>(
      module, "GruModel", "GruDecoding",
      "The packed weights of a recurrent translation model; any number of runs share them.", &build);
}

}  // namespace sharpbeam
