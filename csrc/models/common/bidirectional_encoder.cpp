#include "models/common/bidirectional_encoder.h"

#include <algorithm>

#include "models/gru/cell.h"
#include "models/lstm/lstm.h"

namespace sharpbeam {
namespace {

struct Span {
  int64_t source, begin, length;  // index of the source; its positions
};

// The sources by falling length, so that those that have a position t are a prefix.
std::vector<Span> by_length(const Sources& sources) {
  std::vector<Span> spans;
  int64_t begin = 0;
  for (int64_t i = 0; i < sources.count; begin += sources.length[i++]) spans.push_back({i, begin, sources.length[i]});
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.length > b.length; });
  return spans;
}

// One direction of a layer: reads x [positions, in], writes out [positions, dim], rows `stride` apart. Returns the last
// states [count, kStateVectors, dim], in the order of `spans`.
template <typename Cell>
std::vector<float> scan(const Kernels& table, const Cell& cell, const std::vector<Span>& spans, const float* x,
                        int64_t positions, bool backwards, float* out, int64_t stride) {
  const int64_t dim = cell.dim, gates_dim = Cell::kGates * dim, state_dim = Cell::kStateVectors * dim;
  const int64_t count = static_cast<int64_t>(spans.size());
  std::vector<float> input(positions * gates_dim), hidden(count * gates_dim), states(count * state_dim, 0.0f);
  LinearInput scratch;
  cell.input.apply(table, x, cell.input.in(), input.data(), gates_dim, positions, scratch);
  int64_t active = count;
  for (int64_t t = 0; t < spans.front().length; ++t) {
    while (spans[active - 1].length <= t) --active;
    cell.hidden.apply(table, states.data(), state_dim, hidden.data(), gates_dim, active, scratch);
    for (int64_t row = 0; row < active; ++row) {
      const int64_t position = spans[row].begin + (backwards ? spans[row].length - 1 - t : t);
      float* state = states.data() + row * state_dim;
      cell.advance(table, input.data() + position * gates_dim, hidden.data() + row * gates_dim, state);
      std::copy_n(state, dim, out + position * stride);
    }
  }
  return states;
}

}  // namespace

template <typename Cell>
BidirectionalEncoder<Cell>::BidirectionalEncoder(const Weights& weights, const std::string& embedding,
                                                 int64_t vocab_size, int64_t embedding_dim, int64_t layers, int64_t dim,
                                                 bool residual)
    : embedding_(weights.array(embedding, {vocab_size, embedding_dim})),
      embedding_dim_(embedding_dim),
      residual_(residual) {
  for (int64_t i = 0; i < layers; ++i) {
    const std::string name = "encoder." + std::to_string(i);
    const int64_t width = i == 0 ? embedding_dim : 2 * dim;
    layers_.push_back({Cell(weights, name + ".forwards", width, dim), Cell(weights, name + ".backwards", width, dim)});
  }
}

template <typename Cell>
std::vector<float> BidirectionalEncoder<Cell>::encode(const Kernels& table, const Sources& sources, float* last) const {
  if (sources.count == 0) return {};
  const std::vector<Span> spans = by_length(sources);
  std::vector<float> x(sources.positions * embedding_dim_);
  for (int64_t i = 0; i < sources.positions; ++i)
    std::copy_n(embedding_.get() + sources.token[i] * embedding_dim_, embedding_dim_, x.data() + i * embedding_dim_);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const int64_t dim = layer.forwards.dim;
    std::vector<float> out(sources.positions * 2 * dim);
    for (const bool backwards : {false, true}) {
      const int64_t side = backwards ? dim : 0;
      const std::vector<float> states = scan(table, backwards ? layer.backwards : layer.forwards, spans, x.data(),
                                             sources.positions, backwards, out.data() + side, 2 * dim);
      if (last == nullptr) continue;
      for (size_t row = 0; row < spans.size(); ++row)
        for (int64_t vector = 0; vector < Cell::kStateVectors; ++vector) {
          const int64_t to = (spans[row].source * static_cast<int64_t>(layers_.size()) + static_cast<int64_t>(i));
          std::copy_n(states.data() + (static_cast<int64_t>(row) * Cell::kStateVectors + vector) * dim, dim,
                      last + (to * Cell::kStateVectors + vector) * 2 * dim + side);
        }
    }
    if (residual_ && i >= kResidualFrom)
      for (size_t j = 0; j < out.size(); ++j) out[j] += x[j];
    x = std::move(out);
  }
  return x;
}

template class BidirectionalEncoder<GruCell>;
template class BidirectionalEncoder<LstmCell>;

}  // namespace sharpbeam
