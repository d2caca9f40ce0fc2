#include "models/gru/decoder.h"

#include <algorithm>
#include <string>
#include <utility>

namespace sharpbeam {

GruDecoder::GruDecoder(const Kernels& table, const Weights& weights, const GruConfig& config)
    : config_(config),
      options_(weights.options()),
      attention_(weights, config.attention, "decoder.attention", config.attention_dim, config.memory_dim()) {
  const GruConfig& c = config;
  const ComputeType type = options_.type;
  bridge_ = weights.linear("decoder.bridge.weight", "decoder.bridge.bias", c.decoder_dim, c.memory_dim());
  StackedWeights token(c.embedding_dim), state(c.decoder_dim), context(c.memory_dim());
  add_cell(weights, token, state, context);
  int64_t below = c.decoder_dim;
  for (int64_t i = 0; i < c.fc_layers; ++i) {
    const std::string name = "decoder.fc." + std::to_string(i);
    fc_.push_back(weights.linear(name + ".weight", name + ".bias", c.fc_dim, below));
    below = c.fc_dim;
  }
  if (c.top == Top::tanh) top_ = weights.linear("decoder.top.weight", "decoder.top.bias", c.top_dim, below);
  if (c.top == Top::gru) top_gru_ = GruCell(weights, "decoder.top_gru", below, c.top_dim);
  if (c.readout != Readout::none) {  // reads [top; context; token], CUBE eq. 7
    const int64_t width = c.stack_dim() + c.memory_dim() + c.embedding_dim;
    const Array matrix = weights.array("decoder.readout.weight", {c.hidden_dim, width});
    const Array bias = weights.array("decoder.readout.bias", {c.hidden_dim});
    const float* readout = matrix.get();
    readout_ = Linear(type, readout, c.hidden_dim, c.stack_dim(), width, nullptr);
    context.add(readout + c.stack_dim(), c.hidden_dim, width, nullptr);
    token.add(readout + c.stack_dim() + c.memory_dim(), c.hidden_dim, width, bias.get());
  }
  state_ = state.linear(type);
  context_ = context.linear(type);
  token_ = PrecomputedEmbeddings(table, weights.array("target_embedding", {c.target_vocab_size, c.embedding_dim}),
                                 c.target_vocab_size, token.linear(type), options_.precomputed_embeddings);
}

void GruDecoder::add_cell(const Weights& weights, StackedWeights& token, StackedWeights& state,
                          StackedWeights& context) {
  const GruConfig& c = config_;
  const int64_t dim = c.decoder_dim, gates = GruCell::kGates * dim;
  std::vector<Array> read;
  const auto array = [&](const char* name, std::vector<int64_t> shape) {
    return read.emplace_back(weights.array(std::string("decoder.") + name, shape)).get();
  };
  const int64_t input_dim = c.embedding_dim + (attentional() ? c.memory_dim() : 0);  // of the first cell
  const int64_t query_in = dim + (attentional() ? c.embedding_dim : 0);              // what the query is computed from
  const float* input = array("first.input_weight", {gates, input_dim});
  const float* query = array("attention.query_weight", {c.attention_dim, query_in});
  token.add(input, gates, input_dim, array("first.input_bias", {gates}));
  state.add(array("first.hidden_weight", {gates, dim}), gates, dim, array("first.hidden_bias", {gates}));
  if (attentional()) {
    token.add(query + dim, c.attention_dim, query_in, nullptr);
    state.add(query, c.attention_dim, query_in, nullptr);
    context.add(input + c.embedding_dim, gates, input_dim, nullptr);
    return;
  }
  StackedWeights intermediate(dim);
  intermediate.add(array("second.hidden_weight", {gates, dim}), gates, dim, array("second.hidden_bias", {gates}));
  intermediate.add(query, c.attention_dim, query_in, nullptr);
  intermediate_ = intermediate.linear(options_.type);
  context.add(array("second.input_weight", {gates, c.memory_dim()}), gates, c.memory_dim(),
              array("second.input_bias", {gates}));
}

void GruDecoder::begin(const Kernels& table, const EncodedSource& source, float* state) const {
  const int64_t width = config_.memory_dim();
  std::vector<float> mean(width, 0.0f);
  for (int64_t i = 0; i < source.positions; ++i) table.add(mean.data(), source.values.data() + i * width, width);
  for (float& value : mean) value /= static_cast<float>(source.positions);
  LinearInput scratch;
  bridge_.apply(table, mean.data(), width, state, config_.decoder_dim, 1, scratch);
  table.tanh(state, config_.decoder_dim);
  float* top = state + config_.decoder_dim;
  if (config_.top_start == TopStart::bottom)
    std::copy_n(state, config_.top_dim, top);
  else
    std::fill(top, state + config_.state_dim(), 0.0f);
}

void GruDecoder::precompute(const Kernels& table, std::vector<EncodedSource>& sources) const {
  if (!options_.precomputed_attention) return;
  LinearInput scratch;
  for (EncodedSource& source : sources) {
    std::vector<float> outputs(source.positions * context_.out());
    context_.apply(table, source.values.data(), context_.in(), outputs.data(), context_.out(), source.positions,
                   scratch);
    source.values = std::move(outputs);
  }
}

// The output of context_ for each row [R, out of context_]: a weighted sum of precomputed outputs, or the matmul of the
// weighted sum (SHARP 4.3).
const float* GruDecoder::attend(const Kernels& table, float* queries, const StepRows& step, GruBuffers& buffers) const {
  const bool kept = options_.precomputed_attention;
  const int64_t width = context_.out(), summed = kept ? width : context_.in();
  float* result = reserved(buffers.from_context, step.rows * width);
  float* sums = kept ? result : reserved(buffers.contexts, step.rows * summed);
  attention_.attend(table, queries, step, buffers.scores, sums, summed);
  if (!kept) context_.apply(table, sums, summed, result, width, step.rows, buffers.input);
  return result;
}

// Conditional (CUBE eq. 13-14): s~ = GRU1(e, s);  c = attend(s~);  s' = GRU2(c, s~).
// Attentional (SHARP section 4): c = attend(s, e);  s' = GRU([e; c], s).
GruDecoder::Bottom GruDecoder::bottom(const Kernels& table, const StepRows& step, GruBuffers& buffers) const {
  const int64_t rows = step.rows, dim = config_.decoder_dim, state_dim = config_.state_dim();
  const int64_t query_dim = attention_.dim(), gates_dim = GruCell::kGates * dim;
  const int64_t width = state_.out(), context_dim = context_.out();
  const float* const* token = token_.apply(table, step.token, rows, buffers.embeddings);
  float* queries = reserved(buffers.queries, rows * query_dim);
  float* recurrent = reserved(buffers.recurrent, step.parents * width);
  float* result = reserved(buffers.bottom, rows * dim);
  const auto state = [&](int64_t row) { return step.states + step.parent[row] * state_dim; };
  state_.apply(table, step.states, state_dim, recurrent, width, step.parents, buffers.input);

  if (attentional()) {
    for (int64_t row = 0; row < rows; ++row) {
      std::copy_n(token[row] + gates_dim, query_dim, queries + row * query_dim);
      table.add(queries + row * query_dim, recurrent + step.parent[row] * width + gates_dim, query_dim);
    }
    const float* from_context = attend(table, queries, step, buffers);
    float* gates = reserved(buffers.gates, gates_dim);
    for (int64_t row = 0; row < rows; ++row) {
      std::copy_n(token[row], gates_dim, gates);
      table.add(gates, from_context + row * context_dim, gates_dim);
      table.gru(gates, recurrent + step.parent[row] * width, state(row), result + row * dim, dim);
    }
    return {result, from_context, token};
  }

  const int64_t stacked_dim = intermediate_.out();
  float* intermediate = reserved(buffers.intermediate, rows * dim);
  float* stacked = reserved(buffers.stacked, rows * stacked_dim);
  for (int64_t row = 0; row < rows; ++row)
    table.gru(token[row], recurrent + step.parent[row] * width, state(row), intermediate + row * dim, dim);
  intermediate_.apply(table, intermediate, dim, stacked, stacked_dim, rows, buffers.input);
  for (int64_t row = 0; row < rows; ++row)
    std::copy_n(stacked + row * stacked_dim + gates_dim, query_dim, queries + row * query_dim);
  const float* from_context = attend(table, queries, step, buffers);
  for (int64_t row = 0; row < rows; ++row)
    table.gru(from_context + row * context_dim, stacked + row * stacked_dim, intermediate + row * dim,
              result + row * dim, dim);
  return {result, from_context, token};
}

// SHARP section 5: two plain layers, then a residual connection around every other layer.
const float* GruDecoder::fully_connected(const Kernels& table, int64_t rows, GruBuffers& buffers,
                                         const float* below) const {
  const int64_t size = rows * config_.fc_dim;
  const float* residual = nullptr;
  for (size_t i = 0; i < fc_.size(); ++i) {
    float* out = reserved(buffers.fc[i % 3], size);  // three, so that neither `below` nor `residual` is overwritten
    fc_[i].apply(table, below, fc_[i].in(), out, config_.fc_dim, rows, buffers.input);
    if (i >= 2 && i % 2 == 0) table.add(out, residual, size);
    table.relu(out, size);
    if (i % 2 == 0) residual = out;
    below = out;
  }
  return below;
}

const float* GruDecoder::top(const Kernels& table, const StepRows& step, GruBuffers& buffers,
                             const float* below) const {
  if (config_.top == Top::none) return below;
  const int64_t rows = step.rows, dim = config_.top_dim, state_dim = config_.state_dim();
  float* result = reserved(buffers.top, rows * dim);
  if (config_.top == Top::tanh) {
    top_.apply(table, below, top_.in(), result, dim, rows, buffers.input);
    table.tanh(result, rows * dim);
    return result;
  }
  const float* states = step.states + config_.decoder_dim;
  float* gates = reserved(buffers.gates, rows * 3 * dim);
  float* recurrent = reserved(buffers.top_recurrent, step.parents * 3 * dim);
  top_gru_.input.apply(table, below, top_gru_.input.in(), gates, 3 * dim, rows, buffers.input);
  top_gru_.hidden.apply(table, states, state_dim, recurrent, 3 * dim, step.parents, buffers.input);
  for (int64_t row = 0; row < rows; ++row)
    table.gru(gates + row * 3 * dim, recurrent + step.parent[row] * 3 * dim, states + step.parent[row] * state_dim,
              result + row * dim, dim);
  return result;
}

StepRows GruDecoder::unmerged(const StepRows& step, GruBuffers& buffers) const {
  const int64_t width = config_.state_dim();
  float* states = reserved(buffers.states, step.rows * width);
  for (auto row = static_cast<int32_t>(buffers.own_parent.size()); row < step.rows; ++row)
    buffers.own_parent.push_back(row);
  for (int64_t row = 0; row < step.rows; ++row)
    std::copy_n(step.states + step.parent[row] * width, width, states + row * width);
  StepRows result = step;
  result.parent = buffers.own_parent.data();
  result.parents = step.rows;
  result.states = states;
  return result;
}

void GruDecoder::step(const Kernels& table, const StepRows& given, GruBuffers& buffers, float* hidden) const {
  const GruConfig& c = config_;
  const int64_t rows = given.rows;
  if (rows == 0) return;
  const StepRows step = options_.merge_states ? given : unmerged(given, buffers);
  const auto [bottom, from_context, token] = this->bottom(table, step, buffers);
  const float* top = this->top(table, step, buffers, fully_connected(table, rows, buffers, bottom));

  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(bottom + row * c.decoder_dim, c.decoder_dim, step.next[row]);
    if (c.top == Top::gru) std::copy_n(top + row * c.top_dim, c.top_dim, step.next[row] + c.decoder_dim);
  }
  if (c.readout == Readout::none) {
    std::copy_n(top, rows * c.hidden_dim, hidden);
    return;
  }
  // The hidden vector t = g(e, c, s) (CUBE eq. 7). The parts that read the token and the context are the last columns
  // of their stacked matrices, so they are computed already.
  const int64_t token_part = token_.out() - c.hidden_dim, context_part = context_.out() - c.hidden_dim;
  readout_.apply(table, top, c.stack_dim(), hidden, c.hidden_dim, rows, buffers.input);
  for (int64_t row = 0; row < rows; ++row) {
    table.add(hidden + row * c.hidden_dim, from_context + row * context_.out() + context_part, c.hidden_dim);
    table.add(hidden + row * c.hidden_dim, token[row] + token_part, c.hidden_dim);
  }
  if (c.readout == Readout::tanh) table.tanh(hidden, rows * c.hidden_dim);
}

}  // namespace sharpbeam
