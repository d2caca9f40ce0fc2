#include "models/encoder.h"

#include <algorithm>
#include <numeric>

namespace quickbeam {
namespace {

struct Span {
  int64_t begin, length;  // the positions of one source
};

// The sources, longest first, so that those still alive at any position are a prefix.
std::vector<Span> by_length(const Sources& sources) {
  std::vector<Span> spans;
  int64_t begin = 0;
  for (int64_t i = 0; i < sources.count; begin += sources.length[i++]) spans.push_back({begin, sources.length[i]});
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.length > b.length; });
  return spans;
}

// One direction of a layer: x [positions, in] -> out, `dim` wide columns of rows `stride` apart.
void scan(const Kernels& table, const Gru& cell, const std::vector<Span>& spans, const float* x, int64_t positions,
          bool backwards, float* out, int64_t stride) {
  const int64_t dim = cell.dim, count = static_cast<int64_t>(spans.size());
  std::vector<float> input(positions * 3 * dim), hidden(count * 3 * dim), state(count * dim, 0.0f);
  cell.input.multiply(table, x, cell.input.in(), input.data(), 3 * dim, positions);
  int64_t alive = count;
  for (int64_t t = 0; t < spans.front().length; ++t) {
    while (spans[alive - 1].length <= t) --alive;
    cell.hidden.multiply(table, state.data(), dim, hidden.data(), 3 * dim, alive);
    for (int64_t row = 0; row < alive; ++row) {
      const int64_t position = spans[row].begin + (backwards ? spans[row].length - 1 - t : t);
      float* following = state.data() + row * dim;
      table.gru(input.data() + position * 3 * dim, hidden.data() + row * 3 * dim, following, following, dim);
      std::copy_n(following, dim, out + position * stride);
    }
  }
}

}  // namespace

Encoder::Encoder(const Weights& weights, const RecurrentConfig& config) : embedding_dim_(config.embedding_dim) {
  const bool shared = config.shared_embedding;
  embedding_ =
      weights.array(shared ? "target_embedding" : "source_embedding", {config.source_vocab_size, config.embedding_dim});
  for (int64_t i = 0; i < config.encoder_layers; ++i) {
    const std::string name = "encoder." + std::to_string(i);
    const int64_t width = i == 0 ? config.embedding_dim : config.memory_dim();
    layers_.push_back({Gru(weights, name + ".forwards", width, config.encoder_dim),
                       Gru(weights, name + ".backwards", width, config.encoder_dim)});
  }
}

std::vector<float> Encoder::encode(const Kernels& table, const Sources& sources) const {
  if (sources.count == 0) return {};
  const std::vector<Span> spans = by_length(sources);
  std::vector<float> x(sources.positions * embedding_dim_);
  for (int64_t i = 0; i < sources.positions; ++i)
    std::copy_n(embedding_.get() + sources.token[i] * embedding_dim_, embedding_dim_, x.data() + i * embedding_dim_);
  for (const Layer& layer : layers_) {
    const int64_t dim = layer.forwards.dim;
    std::vector<float> out(sources.positions * 2 * dim);
    scan(table, layer.forwards, spans, x.data(), sources.positions, false, out.data(), 2 * dim);
    scan(table, layer.backwards, spans, x.data(), sources.positions, true, out.data() + dim, 2 * dim);
    x = std::move(out);
  }
  return x;
}

}  // namespace quickbeam
