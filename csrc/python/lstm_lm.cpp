// sharpbeam._core: LstmLm and LstmLmDecoding.
#include "models/lstm/lstm_lm.h"

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

std::shared_ptr<LstmLm> build(nb::dict facts, nb::dict tensors, const std::string& isa, nb::dict options) {
  const auto size = [&](const char* key) { return nb::cast<int64_t>(facts[key]); };
  const LstmLmConfig config{size("vocab_size"), size("embedding_dim"), size("hidden_dim"), size("layers"),
                            size("bos_id")};
  return std::make_shared<LstmLm>(config, read_weights(tensors, options), table_named(isa.c_str()));
}

}  // namespace

void bind_lstm_lm(nb::module_& module) {
  bind_model<LstmLm, LstmLmDecoding>(module, "LstmLm", "LstmLmDecoding",
                                     "The packed weights of an LSTM language model; any number of runs share them.",
                                     &build);
}

}  // namespace sharpbeam
