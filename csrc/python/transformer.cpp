// sharpbeam._core: Transformer and TransformerDecoding.
#include "models/transformer/model.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "python/bindings.h"
#include "python/facts.h"
#include "python/run.h"

namespace nb = nanobind;

namespace sharpbeam {
namespace {

// Facts as in TransformerConfig (models/transformer/config.py); the ones about ids and the output layer are not needed.
TransformerConfig read_config(nb::dict facts) {
  const auto size = [&](const char* key) { return nb::cast<int64_t>(facts[key]); };
  const auto flag = [&](const char* key) { return nb::cast<bool>(facts[key]); };
  TransformerConfig config;
  config.source_vocab_size = size("source_vocab_size");
  config.target_vocab_size = size("target_vocab_size");
  config.hidden_dim = size("hidden_dim");
  config.encoder_layers = size("encoder_layers");
  config.decoder_layers = size("decoder_layers");
  config.encoder_heads = size("encoder_heads");
  config.decoder_heads = size("decoder_heads");
  config.encoder_ffn_dim = size("encoder_ffn_dim");
  config.decoder_ffn_dim = size("decoder_ffn_dim");
  config.position_offset = size("position_offset");
  config.max_positions = size("max_positions");
  config.norm_epsilon = nb::cast<float>(facts["norm_epsilon"]);
  config.norm_before = choice<int>(facts, "norm", {"post", "pre"}) == 1;
  config.encoder_final_norm = flag("encoder_final_norm");
  config.decoder_final_norm = flag("decoder_final_norm");
  config.embedding_norm = flag("embedding_norm");
  config.gated_ffn = flag("gated_ffn");
  config.scaled_embedding = flag("scaled_embedding");
  config.shared_embedding = flag("shared_embedding");
  config.attention_bias = flag("attention_bias");
  config.ffn_bias = flag("ffn_bias");
  config.ssru_projection = flag("ssru_projection");
  config.activation = choice<Activation>(facts, "activation", {"relu", "gelu", "gelu_sigmoid", "swish"});
  config.positions = choice<Positions>(facts, "positions", {"sinusoidal", "sinusoidal-t2t", "learned", "none"});
  config.decoder_kind = choice<DecoderKind>(facts, "decoder_kind", {"attention", "ssru"});
  return config;
}

std::shared_ptr<Transformer> build(nb::dict facts, nb::dict tensors, const std::string& isa, nb::dict options) {
  return std::make_shared<Transformer>(read_config(facts), read_weights(tensors, options), table_named(isa.c_str()));
}

}  // namespace

void bind_transformer(nb::module_& module) {
  bind_model<Transformer, TransformerDecoding>(module, "Transformer", "TransformerDecoding",
                                               "The packed weights of a transformer; any number of runs share them.",
                                               &build);
}

}  // namespace sharpbeam
