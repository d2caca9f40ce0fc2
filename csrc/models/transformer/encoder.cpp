#include "models/transformer/encoder.h"

#include <algorithm>

namespace sharpbeam {

TransformerEncoder::TransformerEncoder(const Weights& weights, const TransformerConfig& config)
    : dim_(config.hidden_dim),
      embedding_(weights, "source", config),
      heads_(config.encoder_heads, config),
      biases_(weights, config, Side::encoder),
      final_norm_(config.encoder_final_norm) {
  for (int64_t i = 0; i < config.encoder_layers; ++i) {
    const std::string name = "encoder." + std::to_string(i), self = name + ".attention";
    const bool bias = config.attention_bias;
    const int64_t width = heads_.width();
    layers_.push_back({biases_.of(i), Residual(weights, self, config),
                       linear(weights, self + ".qkv", 3 * width, dim_, bias, width, heads_.scale),
                       linear(weights, self + ".out", dim_, width, bias),
                       FeedForward(weights, name + ".ffn", config, config.encoder_ffn_dim,
                                   config.is_mixture(config.encoder_expert_step, i))});
  }
  if (final_norm_) norm_ = Norm(weights, "encoder_norm", config);
}

const float* TransformerEncoder::encode(const Kernels& table, const Sources& sources,
                                        TransformerBuffers& buffers) const {
  float* x = reserved(buffers.x, sources.positions * dim_);
  int64_t row = 0;
  for (int64_t i = 0; i < sources.count; ++i)
    for (int64_t position = 0; position < sources.length[i]; ++position, ++row)
      embedding_.apply(table, sources.token[row], position, x + row * dim_);
  for (const Layer& layer : layers_) {
    self_attention(table, layer, sources, buffers);
    layer.ffn.apply(table, x, sources.positions, buffers);
  }
  if (final_norm_) norm_.apply(table, x, nullptr, x, sources.positions);
  return x;
}

void TransformerEncoder::self_attention(const Kernels& table, const Layer& layer, const Sources& sources,
                                        TransformerBuffers& buffers) const {
  const int64_t rows = sources.positions, longest = *std::max_element(sources.length, sources.length + sources.count);
  const int64_t width = heads_.width(), stride = 3 * width + TransformerConfig::kKvPadding;
  float* x = buffers.x.get();
  float* qkv = reserved(buffers.qkv, rows * stride);
  float* context = reserved(buffers.context, rows * width);
  float* scores = reserved(buffers.scores, heads_.count * longest);
  layer.qkv.apply(table, layer.residual.before(table, x, buffers.normalized, rows), dim_, qkv, stride, rows,
                  buffers.input);
  buffers.positions.resize(longest);
  int64_t first = 0;
  for (int64_t i = 0; i < sources.count; first += sources.length[i], ++i) {
    const int64_t size = sources.length[i];
    for (int64_t p = 0; p < size; ++p) buffers.positions[p] = qkv + (first + p) * stride;
    for (int64_t row = first; row < first + size; ++row)
      heads_.attend(table, qkv + row * stride, row - first, buffers.positions.data(), size, width, 2 * width,
                    layer.bias, scores, context + row * width);
  }
  float* output = reserved(buffers.output, rows * dim_);
  layer.out.apply(table, context, width, output, dim_, rows, buffers.input);
  layer.residual.after(table, x, output, rows);
}

}  // namespace sharpbeam
