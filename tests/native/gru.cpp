// The GRU translation models of both papers: the tests of model.h.
#include "models/gru/model.h"

#include "model.h"

namespace {

using namespace sharpbeam;
using namespace sharpbeam::tests;

GruConfig cube() {
  GruConfig c;
  c.source_vocab_size = 11;
  c.target_vocab_size = 13;
  c.embedding_dim = 6;
  c.encoder_layers = 2;
  c.encoder_dim = 5;
  c.decoder_dim = 9;
  c.attention_dim = 17;
  c.hidden_dim = 7;
  return c;
}

GruConfig sharp() {
  GruConfig c = cube();
  c.target_vocab_size = c.source_vocab_size;
  c.shared_embedding = true;
  c.decoder_cell = DecoderCell::attentional;
  c.attention = AttentionKind::tanh_dot;
  c.fc_layers = 5;
  c.fc_dim = 65;
  c.top = Top::gru;
  c.top_dim = 8;
  c.readout = Readout::none;
  c.hidden_dim = 8;
  return c;
}

// The names and shapes of src/sharpbeam/models/gru/tensors.py.
std::map<std::string, Tensor> random_tensors(const GruConfig& c) {
  RandomTensors all;
  all.add("target_embedding", {c.target_vocab_size, c.embedding_dim});
  if (!c.shared_embedding) all.add("source_embedding", {c.source_vocab_size, c.embedding_dim});
  for (int64_t i = 0; i < c.encoder_layers; ++i)
    for (const char* direction : {"forwards", "backwards"})
      all.cell("encoder." + std::to_string(i) + "." + direction, i ? c.memory_dim() : c.embedding_dim, c.encoder_dim,
               GruCell::kGates);
  all.linear("decoder.bridge", c.memory_dim(), c.decoder_dim);
  const bool attentional = c.decoder_cell == DecoderCell::attentional;
  all.cell("decoder.first", c.embedding_dim + (attentional ? c.memory_dim() : 0), c.decoder_dim, GruCell::kGates);
  if (!attentional) all.cell("decoder.second", c.memory_dim(), c.decoder_dim, GruCell::kGates);
  all.add("decoder.attention.query_weight", {c.attention_dim, c.decoder_dim + (attentional ? c.embedding_dim : 0)});
  all.add("decoder.attention.key_weight", {c.attention_dim, c.memory_dim()});
  all.add("decoder.attention.key_bias", {c.attention_dim});
  if (c.attention == AttentionKind::mlp) all.add("decoder.attention.score_weight", {c.attention_dim});
  int64_t below = c.decoder_dim;
  for (int64_t i = 0; i < c.fc_layers; ++i, below = c.fc_dim)
    all.linear("decoder.fc." + std::to_string(i), below, c.fc_dim);
  if (c.top == Top::tanh) all.linear("decoder.top", below, c.top_dim);
  if (c.top == Top::gru) all.cell("decoder.top_gru", below, c.top_dim, GruCell::kGates);
  if (c.readout != Readout::none)
    all.linear("decoder.readout", c.stack_dim() + c.memory_dim() + c.embedding_dim, c.hidden_dim);
  return all.tensors;
}

}  // namespace

TEST(model_gru) {
  for (const GruConfig& config : {cube(), sharp()}) {
    const std::map<std::string, Tensor> tensors = random_tensors(config);
    for (const char* const* name = kernel_names(); *name != nullptr; ++name) {
      const auto model = std::make_shared<const GruModel>(config, Weights(tensors), kernels(*name));
      ModelTests<GruModel, GruDecoding>(model, config.source_vocab_size, config.target_vocab_size).run();
    }
    wrong_weights(tensors, [&](const Weights& weights) { GruModel(config, weights, kernels()); });
  }
}
