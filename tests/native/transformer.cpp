// The transformer, with self-attention and with SSRU in its decoder: the tests of model.h.
#include "models/transformer/model.h"

#include "model.h"

namespace {

using namespace sharpbeam;
using namespace sharpbeam::tests;

TransformerConfig attention() {
  TransformerConfig c;
  c.source_vocab_size = 11;
  c.target_vocab_size = 13;
  c.hidden_dim = 18;
  c.encoder_layers = 2;
  c.decoder_layers = 2;
  c.encoder_heads = 3;
  c.decoder_heads = 1;
  c.encoder_ffn_dim = 7;
  c.decoder_ffn_dim = 65;
  return c;
}

TransformerConfig recurrent() {
  TransformerConfig c = attention();
  c.decoder_kind = DecoderKind::ssru;
  c.norm = NormPlacement::post;
  c.encoder_final_norm = c.decoder_final_norm = c.attention_bias = c.ffn_bias = false;
  c.embedding_norm = c.gated_ffn = true;
  c.ssru_projection = true;  // vocabulary: a name in config.json
  c.activation = Activation::gelu;
  c.positions = Positions::learned;
  c.max_positions = 30;
  return c;
}

TransformerConfig relative() {
  TransformerConfig c = attention();
  c.norm_kind = NormKind::rms;
  c.activation = Activation::gelu_tanh;
  c.gated_ffn = true;
  c.attention_bias = c.ffn_bias = c.scaled_attention = false;
  c.head_dim = 5;
  c.positions = Positions::relative;
  c.relative_buckets = 4;
  c.relative_distance = 3;
  return c;
}

TransformerConfig shared_relative() {
  TransformerConfig c = attention();
  c.positions = Positions::relative_shared;
  c.relative_buckets = 5;
  c.relative_distance = 4;
  return c;
}

// The names and shapes of src/sharpbeam/models/transformer/config.py.
std::map<std::string, Tensor> random_tensors(const TransformerConfig& c) {
  RandomTensors all;
  const int64_t dim = c.hidden_dim;
  const auto norm = [&](const std::string& name) {
    all.add(name + ".weight", {dim});
    if (c.norm_kind == NormKind::layer) all.add(name + ".bias", {dim});
  };
  const auto linear = [&](const std::string& name, int64_t in, int64_t out, bool bias) {
    all.add(name + ".weight", {out, in});
    if (bias) all.add(name + ".bias", {out});
  };
  const auto ffn = [&](const std::string& name, int64_t width) {
    norm(name + ".norm");
    linear(name + ".up", dim, c.gated_ffn ? 2 * width : width, c.ffn_bias);
    linear(name + ".down", width, dim, c.ffn_bias);
  };
  all.add("target_embedding", {c.target_vocab_size, dim});
  all.add("source_embedding", {c.source_vocab_size, dim});
  for (const std::string side : {"source", "target"}) {
    if (c.positions == Positions::learned) all.add(side + "_positions", {c.max_positions, dim});
    if (c.embedding_norm) norm(side + "_embedding_norm");
  }
  if (c.positions == Positions::relative_shared) {
    all.add("encoder_position_bias", {c.relative_buckets, c.encoder_heads});
    all.add("decoder_position_bias", {c.relative_buckets, c.decoder_heads});
  }
  for (int64_t i = 0; i < c.encoder_layers + c.decoder_layers; ++i) {
    const int64_t heads = i < c.encoder_layers ? c.encoder_heads : c.decoder_heads, width = c.attention_dim(heads);
    const bool encodes = i < c.encoder_layers, recurs = !encodes && c.decoder_kind == DecoderKind::ssru;
    const std::string name =
        encodes ? "encoder." + std::to_string(i) : "decoder." + std::to_string(i - c.encoder_layers);
    const std::string self = name + (recurs ? ".ssru" : ".attention");
    norm(self + ".norm");
    linear(self + (recurs ? ".cell" : ".qkv"), dim, recurs ? 2 * dim : 3 * width, recurs || c.attention_bias);
    if (!recurs || c.ssru_projection)  // vocabulary: a name in config.json
      linear(self + ".out", recurs ? dim : width, dim, c.attention_bias);
    if (c.positions == Positions::relative) all.add(self + ".position_bias", {c.relative_buckets, heads});
    ffn(name + ".ffn", encodes ? c.encoder_ffn_dim : c.decoder_ffn_dim);
    if (encodes) continue;
    norm(name + ".cross.norm");
    linear(name + ".cross.query", dim, width, c.attention_bias);
    linear(name + ".cross.key_value", dim, 2 * width, c.attention_bias);
    linear(name + ".cross.out", width, dim, c.attention_bias);
  }
  if (c.encoder_final_norm) norm("encoder_norm");
  if (c.decoder_final_norm) norm("decoder_norm");
  return all.tensors;
}

}  // namespace

TEST(model_transformer) {
  for (const TransformerConfig& config : {attention(), recurrent(), relative(), shared_relative()}) {
    const std::map<std::string, Tensor> tensors = random_tensors(config);
    for (const char* const* name = kernel_names(); *name != nullptr; ++name) {
      for (const ComputeType type : {ComputeType::float32, ComputeType::int8}) {
        const auto model =
            std::make_shared<const Transformer>(config, Weights(tensors, {.type = type}), kernels(*name));
        ModelTests<Transformer, TransformerDecoding>(model, config.source_vocab_size, config.target_vocab_size).run();
      }
    }
    wrong_weights(tensors, [&](const Weights& weights) { Transformer(config, weights, kernels()); });
  }
}
