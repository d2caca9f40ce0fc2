#include "models/gru/decoder.h"

#include <algorithm>
#include <string>
#include <utility>

namespace sharpbeam {

Decoder::Decoder(const Kernels& table, const Weights& weights, const GruConfig& config)
    : config_(config), computing_(weights.computing()), attention_(weights, config) {
  const GruConfig& c = config;
  const ComputeType type = computing_.type;
  bridge_ = weights.linear("decoder.bridge.weight", "decoder.bridge.bias", c.decoder_dim, c.memory_dim());
  Joined word(c.embedding_dim), state(c.decoder_dim), context(c.memory_dim());
  add_cell(weights, word, state, context);
  int64_t below = c.decoder_dim;
  for (int64_t i = 0; i < c.fc_layers; ++i) {
    const std::string name = "decoder.fc." + std::to_string(i);
    fc_.push_back(weights.linear(name + ".weight", name + ".bias", c.fc_dim, below));
    below = c.fc_dim;
  }
  if (c.top == Top::tanh) top_ = weights.linear("decoder.top.weight", "decoder.top.bias", c.top_dim, below);
  if (c.top == Top::gru) top_gru_ = Gru(weights, "decoder.top_gru", below, c.top_dim);
  if (c.readout != Readout::none) {  // of [top; context; word], CUBE eq. 7
    const int64_t width = c.stack_dim() + c.memory_dim() + c.embedding_dim;
    const float* readout = weights.array("decoder.readout.weight", {c.hidden_dim, width}).get();
    const float* bias = weights.array("decoder.readout.bias", {c.hidden_dim}).get();
    readout_ = Linear(type, readout, c.hidden_dim, c.stack_dim(), width, nullptr);
    context.add(readout + c.stack_dim(), c.hidden_dim, width, nullptr);
    word.add(readout + c.stack_dim() + c.memory_dim(), c.hidden_dim, width, bias);
  }
  state_ = state.linear(type);
  context_ = context.linear(type);
  word_ = PrecomputedEmbeddings(table, weights.array("target_embedding", {c.target_vocab_size, c.embedding_dim}),
                                c.target_vocab_size, word.linear(type), computing_.precomputed_embeddings);
}

void Decoder::add_cell(const Weights& weights, Joined& word, Joined& state, Joined& context) {
  const GruConfig& c = config_;
  const int64_t dim = c.decoder_dim, gates = Gru::kGates * dim;
  const auto array = [&](const char* name, std::vector<int64_t> shape) {
    return weights.array(std::string("decoder.") + name, shape).get();
  };
  const int64_t width = c.embedding_dim + (attentional() ? c.memory_dim() : 0);  // of the first cell's input
  const int64_t asked = dim + (attentional() ? c.embedding_dim : 0);             // of what the query is made from
  const float* input = array("first.input_weight", {gates, width});
  const float* query = array("attention.query_weight", {c.attention_dim, asked});
  word.add(input, gates, width, array("first.input_bias", {gates}));
  state.add(array("first.hidden_weight", {gates, dim}), gates, dim, array("first.hidden_bias", {gates}));
  if (attentional()) {
    word.add(query + dim, c.attention_dim, asked, nullptr);
    state.add(query, c.attention_dim, asked, nullptr);
    context.add(input + c.embedding_dim, gates, width, nullptr);
    return;
  }
  Joined between(dim);
  between.add(array("second.hidden_weight", {gates, dim}), gates, dim, array("second.hidden_bias", {gates}));
  between.add(query, c.attention_dim, asked, nullptr);
  between_ = between.linear(computing_.type);
  context.add(array("second.input_weight", {gates, c.memory_dim()}), gates, c.memory_dim(),
              array("second.input_bias", {gates}));
}

void Decoder::begin(const Kernels& table, const Source& source, float* state) const {
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

void Decoder::prepare(const Kernels& table, std::vector<Source>& sources) const {
  if (!computing_.precomputed_attention) return;
  LinearInput scratch;
  for (Source& source : sources) {
    std::vector<float> products(source.positions * context_.out());
    context_.apply(table, source.values.data(), context_.in(), products.data(), context_.out(), source.positions,
                   scratch);
    source.values = std::move(products);
  }
}

// What is read of the context of each row [R, out of context_]: sum of weights x products, or product of the weighted
// sum (SHARP 4.3).
const float* Decoder::mix(const Kernels& table, float* queries, const StepRows& step, StepBuffers& buffers) const {
  const int64_t width = context_.out(), memory_dim = context_.in();
  float* mixed = reserved(buffers.mixed, step.rows * width);
  if (computing_.precomputed_attention) {
    attention_.attend(table, queries, step, buffers.scores, mixed, width);
    return mixed;
  }
  float* contexts = reserved(buffers.contexts, step.rows * memory_dim);
  attention_.attend(table, queries, step, buffers.scores, contexts, memory_dim);
  context_.apply(table, contexts, memory_dim, mixed, width, step.rows, buffers.rounded);
  return mixed;
}

// Conditional (CUBE eq. 13-14): s~ = GRU1(e, s);  c = attend(s~);  s' = GRU2(c, s~).
// Attentional (SHARP section 4): c = attend(s, e);  s' = GRU([e; c], s).
Decoder::Bottom Decoder::bottom(const Kernels& table, const StepRows& step, StepBuffers& buffers) const {
  const int64_t rows = step.rows, dim = config_.decoder_dim, state_dim = config_.state_dim(), asked = attention_.dim();
  const int64_t gates_dim = Gru::kGates * dim, width = state_.out(), mixed_dim = context_.out();
  const float* const* word = word_.of(table, step.token, rows, buffers.words);
  float* queries = reserved(buffers.queries, rows * asked);
  float* recurrent = reserved(buffers.recurrent, step.parents * width);
  float* result = reserved(buffers.bottom, rows * dim);
  const auto state = [&](int64_t row) { return step.states + step.parent[row] * state_dim; };
  state_.apply(table, step.states, state_dim, recurrent, width, step.parents, buffers.rounded);

  if (attentional()) {
    for (int64_t row = 0; row < rows; ++row) {
      std::copy_n(word[row] + gates_dim, asked, queries + row * asked);
      table.add(queries + row * asked, recurrent + step.parent[row] * width + gates_dim, asked);
    }
    const float* mixed = mix(table, queries, step, buffers);
    float* gates = reserved(buffers.gates, gates_dim);
    for (int64_t row = 0; row < rows; ++row) {
      std::copy_n(word[row], gates_dim, gates);
      table.add(gates, mixed + row * mixed_dim, gates_dim);
      table.gru(gates, recurrent + step.parent[row] * width, state(row), result + row * dim, dim);
    }
    return {result, mixed, word};
  }

  const int64_t joint_dim = between_.out();
  float* between = reserved(buffers.between, rows * dim);
  float* joint = reserved(buffers.joint, rows * joint_dim);
  for (int64_t row = 0; row < rows; ++row)
    table.gru(word[row], recurrent + step.parent[row] * width, state(row), between + row * dim, dim);
  between_.apply(table, between, dim, joint, joint_dim, rows, buffers.rounded);
  for (int64_t row = 0; row < rows; ++row)
    std::copy_n(joint + row * joint_dim + gates_dim, asked, queries + row * asked);
  const float* mixed = mix(table, queries, step, buffers);
  for (int64_t row = 0; row < rows; ++row)
    table.gru(mixed + row * mixed_dim, joint + row * joint_dim, between + row * dim, result + row * dim, dim);
  return {result, mixed, word};
}

// SHARP section 5: h1, h2 plain, then a residual on every other layer.
const float* Decoder::stack(const Kernels& table, int64_t rows, StepBuffers& buffers, const float* below) const {
  const int64_t size = rows * config_.fc_dim;
  const float* residual = nullptr;
  for (size_t i = 0; i < fc_.size(); ++i) {
    float* out = reserved(buffers.stack[i % 3], size);  // three, so that neither `below` nor `residual` is overwritten
    fc_[i].apply(table, below, fc_[i].in(), out, config_.fc_dim, rows, buffers.rounded);
    if (i >= 2 && i % 2 == 0) table.add(out, residual, size);
    table.relu(out, size);
    if (i % 2 == 0) residual = out;
    below = out;
  }
  return below;
}

const float* Decoder::top(const Kernels& table, const StepRows& step, StepBuffers& buffers, const float* below) const {
  if (config_.top == Top::none) return below;
  const int64_t rows = step.rows, dim = config_.top_dim, state_dim = config_.state_dim();
  float* result = reserved(buffers.top, rows * dim);
  if (config_.top == Top::tanh) {
    top_.apply(table, below, top_.in(), result, dim, rows, buffers.rounded);
    table.tanh(result, rows * dim);
    return result;
  }
  const float* states = step.states + config_.decoder_dim;
  float* gates = reserved(buffers.gates, rows * 3 * dim);
  float* recurrent = reserved(buffers.top_recurrent, step.parents * 3 * dim);
  top_gru_.input.apply(table, below, top_gru_.input.in(), gates, 3 * dim, rows, buffers.rounded);
  top_gru_.hidden.apply(table, states, state_dim, recurrent, 3 * dim, step.parents, buffers.rounded);
  for (int64_t row = 0; row < rows; ++row)
    table.gru(gates + row * 3 * dim, recurrent + step.parent[row] * 3 * dim, states + step.parent[row] * state_dim,
              result + row * dim, dim);
  return result;
}

StepRows Decoder::apart(const StepRows& step, StepBuffers& buffers) const {
  const int64_t width = config_.state_dim();
  float* states = reserved(buffers.apart, step.rows * width);
  for (auto row = static_cast<int32_t>(buffers.itself.size()); row < step.rows; ++row) buffers.itself.push_back(row);
  for (int64_t row = 0; row < step.rows; ++row)
    std::copy_n(step.states + step.parent[row] * width, width, states + row * width);
  StepRows own = step;
  own.parent = buffers.itself.data();
  own.parents = step.rows;
  own.states = states;
  return own;
}

void Decoder::step(const Kernels& table, const StepRows& given, StepBuffers& buffers, float* hidden) const {
  const GruConfig& c = config_;
  const int64_t rows = given.rows;
  if (rows == 0) return;
  const StepRows step = computing_.merge_states ? given : apart(given, buffers);
  const auto [bottom, mixed, word] = this->bottom(table, step, buffers);
  const float* top = this->top(table, step, buffers, stack(table, rows, buffers, bottom));

  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(bottom + row * c.decoder_dim, c.decoder_dim, step.next[row]);
    if (c.top == Top::gru) std::copy_n(top + row * c.top_dim, c.top_dim, step.next[row] + c.decoder_dim);
  }
  if (c.readout == Readout::none) {
    std::copy_n(top, rows * c.hidden_dim, hidden);
    return;
  }
  // The hidden vector t = g(e, c, s) (CUBE eq. 7): what is read of word and context was computed with the cell's.
  const int64_t from_word = word_.out() - c.hidden_dim, from_context = context_.out() - c.hidden_dim;
  readout_.apply(table, top, c.stack_dim(), hidden, c.hidden_dim, rows, buffers.rounded);
  for (int64_t row = 0; row < rows; ++row) {
    table.add(hidden + row * c.hidden_dim, mixed + row * context_.out() + from_context, c.hidden_dim);
    table.add(hidden + row * c.hidden_dim, word[row] + from_word, c.hidden_dim);
  }
  if (c.readout == Readout::tanh) table.tanh(hidden, rows * c.hidden_dim);
}

}  // namespace sharpbeam
