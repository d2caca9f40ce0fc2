#include "models/decoder.h"

#include <algorithm>

namespace quickbeam {
namespace {

float* room(Buffer& buffer, int64_t size) {
  buffer.reserve(size);
  return buffer.get();
}

void add(float* x, const float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] += y[i];
}

void relu(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = x[i] > 0.0f ? x[i] : 0.0f;
}

// Columns of `x` [rows, width], copied behind the ones already in `joined` [rows, stride].
float* append(float* joined, int64_t stride, const float* x, int64_t width, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) std::copy_n(x + row * width, width, joined + row * stride);
  return joined + width;
}

}  // namespace

Decoder::Decoder(const Weights& weights, const RecurrentConfig& config) : config_(config), attention_(weights, config) {
  const RecurrentConfig& c = config;
  embedding_ = weights.array("target_embedding", {c.target_vocab_size, c.embedding_dim});
  bridge_ = weights.linear("decoder.bridge.weight", "decoder.bridge.bias", c.decoder_dim, c.memory_dim());
  if (c.decoder_cell == DecoderCell::conditional) {
    first_ = Gru(weights, "decoder.first", c.embedding_dim, c.decoder_dim);
    second_ = Gru(weights, "decoder.second", c.memory_dim(), c.decoder_dim);
  } else {
    first_ = Gru(weights, "decoder.first", c.embedding_dim + c.memory_dim(), c.decoder_dim);
  }
  int64_t below = c.decoder_dim;
  for (int64_t i = 0; i < c.fc_layers; ++i) {
    const std::string name = "decoder.fc." + std::to_string(i);
    fc_.push_back(weights.linear(name + ".weight", name + ".bias", c.fc_dim, below));
    below = c.fc_dim;
  }
  if (c.top == Top::tanh) top_ = weights.linear("decoder.top.weight", "decoder.top.bias", c.top_dim, below);
  if (c.top == Top::gru) top_gru_ = Gru(weights, "decoder.top_gru", below, c.top_dim);
  if (c.readout != Readout::none)
    readout_ = weights.linear("decoder.readout.weight", "decoder.readout.bias", c.hidden_dim,
                              c.stack_dim() + c.memory_dim() + c.embedding_dim);
}

void Decoder::begin(const Kernels& table, const Source& source, float* state) const {
  const int64_t width = config_.memory_dim();
  std::vector<float> mean(width, 0.0f);
  for (int64_t i = 0; i < source.positions; ++i) add(mean.data(), source.values.data() + i * width, width);
  for (float& value : mean) value /= static_cast<float>(source.positions);
  LinearInput scratch;
  bridge_.apply(table, mean.data(), width, state, config_.decoder_dim, 1, scratch);
  table.tanh(state, config_.decoder_dim);
  std::fill(state + config_.decoder_dim, state + config_.state_dim(), 0.0f);
}

// Conditional (CUBE eq. 13-14): s~ = GRU1(e, s);  c = attend(s~);  s' = GRU2(c, s~).
// Attentional (SHARP section 4): c = attend(s, e);  s' = GRU([e; c], s).
const float* Decoder::bottom(const Kernels& table, const StepRows& step, StepBuffers& buffers, const float* words,
                             float* contexts) const {
  const int64_t rows = step.rows, dim = config_.decoder_dim, state_dim = config_.state_dim();
  const int64_t attention_dim = attention_.dim(), gates_dim = 3 * dim;
  float* queries = room(buffers.queries, rows * attention_dim);
  float* gates = room(buffers.gates, rows * gates_dim);
  float* recurrent = room(buffers.recurrent, rows * gates_dim);
  float* result = room(buffers.bottom, rows * dim);
  first_.hidden.apply(table, step.states, state_dim, recurrent, gates_dim, step.parents, buffers.rounded);

  if (config_.decoder_cell == DecoderCell::conditional) {
    float* between = room(buffers.between, rows * dim);
    first_.input.apply(table, words, config_.embedding_dim, gates, gates_dim, rows, buffers.rounded);
    for (int64_t row = 0; row < rows; ++row)
      table.gru(gates + row * gates_dim, recurrent + step.parent[row] * gates_dim,
                step.states + step.parent[row] * state_dim, between + row * dim, dim);
    attention_.query_state(table, between, dim, queries, rows, buffers.rounded);
    attention_.attend(table, queries, step, buffers.scores, contexts);
    second_.input.apply(table, contexts, config_.memory_dim(), gates, gates_dim, rows, buffers.rounded);
    second_.hidden.apply(table, between, dim, recurrent, gates_dim, rows, buffers.rounded);
    for (int64_t row = 0; row < rows; ++row)
      table.gru(gates + row * gates_dim, recurrent + row * gates_dim, between + row * dim, result + row * dim, dim);
    return result;
  }

  float* shared = room(buffers.shared_queries, step.parents * attention_dim);
  attention_.query_state(table, step.states, state_dim, shared, step.parents, buffers.rounded);
  attention_.query_word(table, words, queries, rows, buffers.rounded);
  for (int64_t row = 0; row < rows; ++row)
    add(queries + row * attention_dim, shared + step.parent[row] * attention_dim, attention_dim);
  attention_.attend(table, queries, step, buffers.scores, contexts);
  const int64_t width = first_.input.in();
  float* joined = room(buffers.joined, rows * width);
  float* behind = append(joined, width, words, config_.embedding_dim, rows);
  append(behind, width, contexts, config_.memory_dim(), rows);
  first_.input.apply(table, joined, width, gates, gates_dim, rows, buffers.rounded);
  for (int64_t row = 0; row < rows; ++row)
    table.gru(gates + row * gates_dim, recurrent + step.parent[row] * gates_dim,
              step.states + step.parent[row] * state_dim, result + row * dim, dim);
  return result;
}

// SHARP section 5: h1, h2 plain, then a residual on every other layer.
const float* Decoder::stack(const Kernels& table, int64_t rows, StepBuffers& buffers, const float* below) const {
  const int64_t size = rows * config_.fc_dim;
  const float* residual = nullptr;
  for (size_t i = 0; i < fc_.size(); ++i) {
    float* out = room(buffers.stack[i % 3], size);  // three, so that neither `below` nor `residual` is overwritten
    fc_[i].apply(table, below, fc_[i].in(), out, config_.fc_dim, rows, buffers.rounded);
    if (i >= 2 && i % 2 == 0) add(out, residual, size);
    relu(out, size);
    if (i % 2 == 0) residual = out;
    below = out;
  }
  return below;
}

const float* Decoder::top(const Kernels& table, const StepRows& step, StepBuffers& buffers, const float* below) const {
  if (config_.top == Top::none) return below;
  const int64_t rows = step.rows, dim = config_.top_dim, state_dim = config_.state_dim();
  float* result = room(buffers.top, rows * dim);
  if (config_.top == Top::tanh) {
    top_.apply(table, below, top_.in(), result, dim, rows, buffers.rounded);
    table.tanh(result, rows * dim);
    return result;
  }
  const float* states = step.states + config_.decoder_dim;
  float* gates = room(buffers.gates, rows * 3 * dim);
  float* recurrent = room(buffers.top_recurrent, step.parents * 3 * dim);
  top_gru_.input.apply(table, below, top_gru_.input.in(), gates, 3 * dim, rows, buffers.rounded);
  top_gru_.hidden.apply(table, states, state_dim, recurrent, 3 * dim, step.parents, buffers.rounded);
  for (int64_t row = 0; row < rows; ++row)
    table.gru(gates + row * 3 * dim, recurrent + step.parent[row] * 3 * dim, states + step.parent[row] * state_dim,
              result + row * dim, dim);
  return result;
}

void Decoder::step(const Kernels& table, const StepRows& step, StepBuffers& buffers, float* hidden) const {
  const RecurrentConfig& c = config_;
  const int64_t rows = step.rows;
  if (rows == 0) return;
  float* words = room(buffers.words, rows * c.embedding_dim);
  for (int64_t row = 0; row < rows; ++row)
    std::copy_n(embedding_.get() + step.token[row] * c.embedding_dim, c.embedding_dim, words + row * c.embedding_dim);
  float* contexts = room(buffers.contexts, rows * c.memory_dim());
  const float* bottom = this->bottom(table, step, buffers, words, contexts);
  const float* top = this->top(table, step, buffers, stack(table, rows, buffers, bottom));

  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(bottom + row * c.decoder_dim, c.decoder_dim, step.next[row]);
    if (c.top == Top::gru) std::copy_n(top + row * c.top_dim, c.top_dim, step.next[row] + c.decoder_dim);
  }
  if (c.readout == Readout::none) {
    std::copy_n(top, rows * c.hidden_dim, hidden);
    return;
  }
  // The hidden vector t = g(e, c, s) (CUBE eq. 7).
  const int64_t width = readout_.in();
  float* joined = room(buffers.joined, rows * width);
  float* behind = append(joined, width, top, c.stack_dim(), rows);
  behind = append(behind, width, contexts, c.memory_dim(), rows);
  append(behind, width, words, c.embedding_dim, rows);
  readout_.apply(table, joined, width, hidden, c.hidden_dim, rows, buffers.rounded);
  if (c.readout == Readout::tanh) table.tanh(hidden, rows * c.hidden_dim);
}

}  // namespace quickbeam
