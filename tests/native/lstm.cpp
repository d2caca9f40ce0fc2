// The LSTM models, for translation and language modeling: the tests of model.h.
#include <string>

#include "model.h"
#include "models/lstm/lstm_attention.h"
#include "models/lstm/lstm_lm.h"

namespace {

using namespace sharpbeam;
using namespace sharpbeam::tests;

// The names and shapes of src/sharpbeam/models/lstm/tensors.py.
std::map<std::string, Tensor> random_tensors(const LstmAttentionConfig& c) {
  RandomTensors all;
  all.add("target_embedding", {c.target_vocab_size, c.embedding_dim});
  if (!c.shared_embedding) all.add("source_embedding", {c.source_vocab_size, c.embedding_dim});
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = std::to_string(i);
    for (const char* direction : {".forwards", ".backwards"})
      all.cell("encoder." + layer + direction, i ? c.hidden_dim : c.embedding_dim, c.hidden_dim / 2, LstmCell::kGates);
    all.cell("decoder.layers." + layer, i ? c.hidden_dim : c.embedding_dim + c.hidden_dim, c.hidden_dim,
             LstmCell::kGates);
  }
  all.add("decoder.key_weight", {c.hidden_dim, c.hidden_dim});
  all.add("decoder.readout_weight", {c.hidden_dim, 2 * c.hidden_dim});
  return all.tensors;
}

// The names and shapes of src/sharpbeam/models/lstm_lm/tensors.py.
std::map<std::string, Tensor> random_tensors(const LstmLmConfig& c) {
  RandomTensors all;
  all.add("embedding", {c.vocab_size, c.embedding_dim});
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string layer = "_l" + std::to_string(i);
    all.add("lstm.weight_ih" + layer, {4 * c.hidden_dim, i ? c.hidden_dim : c.embedding_dim});
    all.add("lstm.weight_hh" + layer, {4 * c.hidden_dim, c.hidden_dim});
    all.add("lstm.bias_ih" + layer, {4 * c.hidden_dim});
    all.add("lstm.bias_hh" + layer, {4 * c.hidden_dim});
  }
  return all.tensors;
}

}  // namespace

TEST(model_lstm_attention) {
  const LstmAttentionConfig two{11, 13, 6, 2, 34, false}, shared{13, 13, 17, 1, 6, true};
  const LstmAttentionConfig deep{11, 13, 6, 4, 18, false, true};
  for (const LstmAttentionConfig& config : {two, shared, deep}) {
    const std::map<std::string, Tensor> tensors = random_tensors(config);
    for (const char* const* name = kernel_names(); *name != nullptr; ++name) {
      const auto model = std::make_shared<const LstmAttention>(config, Weights(tensors), kernels(*name));
      ModelTests<LstmAttention, LstmAttentionDecoding>(model, config.source_vocab_size, config.target_vocab_size).run();
    }
    wrong_weights(tensors, [&](const Weights& weights) { LstmAttention(config, weights, kernels()); });
  }
  LstmAttentionConfig odd = two;
  odd.hidden_dim = 33;
  CHECK(refused([&] { LstmAttention(odd, Weights({}), kernels()); }, "hidden_dim is 33"), kernels().name, 0);
}

TEST(model_lstm_lm) {
  const LstmLmConfig two{11, 6, 17, 2, 1}, one{11, 19, 5, 1, 1};
  for (const LstmLmConfig& config : {two, one}) {
    const std::map<std::string, Tensor> tensors = random_tensors(config);
    for (const char* const* name = kernel_names(); *name != nullptr; ++name) {
      const auto model = std::make_shared<const LstmLm>(config, Weights(tensors), kernels(*name));
      ModelTests<LstmLm, LstmLmDecoding>(model, config.vocab_size, config.vocab_size).run();
    }
    wrong_weights(tensors, [&](const Weights& weights) { LstmLm(config, weights, kernels()); });
  }
}
