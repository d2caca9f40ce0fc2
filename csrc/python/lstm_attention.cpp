// sharpbeam._core: LstmAttention and LstmAttentionDecoding.
#include "models/lstm/lstm_attention.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "python/bindings.h"
#include "python/run.h"

namespace nb = nanobind;

namespace sharpbeam {
namespace {

std::shared_ptr<LstmAttention> build(nb::dict facts, nb::dict tensors, const std::string& isa, nb::dict options) {
  const auto size = [&](const char* key) { return nb::cast<int64_t>(facts[key]); };
  const auto flag = [&](const char* key) { return nb::cast<bool>(facts[key]); };
  const LstmAttentionConfig config{
      size("source_vocab_size"), size("target_vocab_size"), size("embedding_dim"), size("layers"),
      size("hidden_dim"),        flag("shared_embedding"),  flag("residual")};
  return std::make_shared<LstmAttention>(config, read_weights(tensors, options), table_named(isa.c_str()));
}

}  // namespace

void bind_lstm_attention(nb::module_& module) {
  bind_model<LstmAttention, LstmAttentionDecoding>(
      module, "LstmAttention", "LstmAttentionDecoding",
      "The packed weights of an LSTM translation model with attention; any number of runs share them.", &build);
}

}  // namespace sharpbeam
