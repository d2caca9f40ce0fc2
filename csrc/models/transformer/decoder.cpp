#include "models/transformer/decoder.h"

#include <algorithm>

namespace sharpbeam {

TransformerDecoder::TransformerDecoder(const Weights& weights, const TransformerConfig& config)
    : config_(config),
      dim_(config.hidden_dim),
      embedding_(weights, "target", config),
      heads_(config.decoder_heads, config),
      biases_(weights, config, Side::decoder) {
  const TransformerConfig& c = config;
  const bool attends = c.decoder_kind == DecoderKind::attention, bias = c.attention_bias;
  const int64_t width = heads_.width();
  for (int64_t i = 0; i < c.decoder_layers; ++i) {
    const std::string name = "decoder." + std::to_string(i), cross = name + ".cross";
    const std::string self = name + (attends ? ".attention" : ".ssru");
    layers_.push_back(
        {biases_.of(i), Residual(weights, self, c), Residual(weights, cross, c),
         attends ? linear(weights, self + ".qkv", 3 * width, dim_, bias, width, heads_.scale)
                 : linear(weights, self + ".cell", 2 * dim_, dim_, true),
         c.self_out() ? linear(weights, self + ".out", dim_, attends ? width : dim_, bias) : Linear(),
         linear(weights, cross + ".query", width, dim_, bias, width, heads_.scale),
         linear(weights, cross + ".key_value", 2 * width, dim_, bias),
         linear(weights, cross + ".out", dim_, width, bias),
         FeedForward(weights, name + ".ffn", c, c.decoder_ffn_dim, c.is_mixture(c.decoder_expert_step, i))});
  }
  heads_.rounded = layers_[0].key_value.type() == ComputeType::int8;
  if (c.decoder_final_norm) norm_ = Norm(weights, "decoder_norm", c);
}

std::vector<CrossAttentionCache> TransformerDecoder::cross_attention_caches(const Kernels& table,
                                                                            const Sources& sources,
                                                                            const float* encoded,
                                                                            TransformerBuffers& buffers) const {
  const int64_t stride = 2 * heads_.width();
  std::vector<CrossAttentionCache> caches(sources.count);
  for (int64_t i = 0; i < sources.count; ++i) {
    caches[i].positions = sources.length[i];
    caches[i].key_values.reserve(config_.decoder_layers * heads_.packed(sources.length[i]));
  }
  buffers.input.set(table, layers_[0].key_value.type(), encoded, dim_, sources.positions, dim_);
  float* key_values = reserved(buffers.qkv, sources.positions * stride);
  for (int64_t layer = 0; layer < config_.decoder_layers; ++layer) {
    layers_[layer].key_value.apply(table, buffers.input, key_values,
                                   stride);  // of all sources, so weights are read once
    const float* from = key_values;
    for (CrossAttentionCache& source : caches) {
      heads_.pack(from, source.positions, source.key_values.get() + layer * heads_.packed(source.positions));
      from += source.positions * stride;
    }
  }
  return caches;
}

void TransformerDecoder::step(const Kernels& table, const TransformerRows& step, KvCacheTree& cache,
                              TransformerBuffers& buffers, float* hidden) const {
  float* x = reserved(buffers.x, step.rows * dim_);
  for (int64_t row = 0; row < step.rows; ++row)
    embedding_.apply(table, step.token[row], cache.length(step.parent[row]), x + row * dim_);
  gather_positions(step, cache, buffers);
  for (int64_t layer = 0; layer < config_.decoder_layers; ++layer) {
    if (config_.decoder_kind == DecoderKind::attention)
      self_attention(table, step, cache, layer, buffers);
    else
      ssru(table, step, cache, layer, buffers);
    cross_attention(table, step, layer, buffers);
    layers_[layer].ffn.apply(table, x, step.rows, buffers);
  }
  if (config_.decoder_final_norm)
    norm_.apply(table, x, nullptr, hidden, step.rows);
  else
    std::copy_n(x, step.rows * dim_, hidden);
}

void TransformerDecoder::gather_positions(const TransformerRows& step, KvCacheTree& cache,
                                          TransformerBuffers& buffers) const {
  if (config_.decoder_kind != DecoderKind::attention) return;
  buffers.first_position.resize(step.rows);
  int64_t size = 0;
  for (int64_t row = 0; row < step.rows; ++row) {
    buffers.first_position[row] = size;
    size += cache.length(step.state[row]);
  }
  buffers.positions.resize(size);
  for (int64_t row = 0; row < step.rows; ++row)
    cache.path(step.state[row], buffers.positions.data() + buffers.first_position[row]);
}

void TransformerDecoder::self_attention(const Kernels& table, const TransformerRows& step, KvCacheTree& cache,
                                        int64_t layer, TransformerBuffers& buffers) const {
  const Layer& part = layers_[layer];
  float* x = buffers.x.get();
  const int64_t width = heads_.width();
  float* qkv = reserved(buffers.qkv, step.rows * 3 * width);
  float* context = reserved(buffers.context, step.rows * width);
  float* output = reserved(buffers.output, step.rows * dim_);
  part.self.apply(table, part.self_residual.before(table, x, buffers.normalized, step.rows), dim_, qkv, 3 * width,
                  step.rows, buffers.input);
  const int64_t key = layer * 2 * width;
  for (int64_t row = 0; row < step.rows; ++row) {
    const float* query = qkv + row * 3 * width;
    std::copy_n(query + width, 2 * width, cache.at(step.state[row]) + key);
    const int64_t size = cache.length(step.state[row]);
    heads_.attend(table, query, size - 1, buffers.positions.data() + buffers.first_position[row], size, key,
                  key + width, part.bias, reserved(buffers.scores, heads_.count * size), context + row * width);
  }
  part.self_out.apply(table, context, width, output, dim_, step.rows, buffers.input);
  part.self_residual.after(table, x, output, step.rows);
}

void TransformerDecoder::ssru(const Kernels& table, const TransformerRows& step, KvCacheTree& cache, int64_t layer,
                              TransformerBuffers& buffers) const {
  const Layer& part = layers_[layer];
  float* x = buffers.x.get();
  float* gates = reserved(buffers.qkv, step.rows * 2 * dim_);
  float* ssru = reserved(buffers.context, step.rows * dim_);
  part.self.apply(table, part.self_residual.before(table, x, buffers.normalized, step.rows), dim_, gates, 2 * dim_,
                  step.rows, buffers.input);
  for (int64_t row = 0; row < step.rows; ++row)
    table.ssru(gates + row * 2 * dim_, cache.at(step.parent[row]) + layer * dim_,
               cache.at(step.state[row]) + layer * dim_, ssru + row * dim_, dim_);
  if (config_.self_out()) {
    float* output = reserved(buffers.output, step.rows * dim_);
    part.self_out.apply(table, ssru, dim_, output, dim_, step.rows, buffers.input);
    ssru = output;
  }
  part.self_residual.after(table, x, ssru, step.rows);
}

void TransformerDecoder::cross_attention(const Kernels& table, const TransformerRows& step, int64_t layer,
                                         TransformerBuffers& buffers) const {
  const Layer& part = layers_[layer];
  float* x = buffers.x.get();
  const int64_t width = heads_.width();
  float* query = reserved(buffers.qkv, step.rows * width);
  float* context = reserved(buffers.context, step.rows * width);
  float* output = reserved(buffers.output, step.rows * dim_);
  part.query.apply(table, part.cross_residual.before(table, x, buffers.normalized, step.rows), dim_, query, width,
                   step.rows, buffers.input);
  const bool asked = step.attention != nullptr && layer + 1 == config_.decoder_layers;
  for (int64_t row = 0, count = 0; row < step.rows; row += count) {  // `count` rows of the same request
    const CrossAttentionCache& source = *step.source[row];
    for (count = 1; row + count < step.rows && step.source[row + count] == &source;) ++count;
    const int64_t size = source.positions;
    float* scores = reserved(buffers.scores, count * heads_.count * size);
    heads_.attend_packed(table, query + row * width, count, source.key_values.get() + layer * heads_.packed(size), size,
                         scores, context + row * width);
    for (int64_t r = 0; asked && r < count; ++r) {
      float* attention = step.attention + (row + r) * step.width;  // the mean over the heads
      for (int64_t h = 0; h < heads_.count; ++h, scores += size) table.add(attention, scores, size);
      for (int64_t p = 0; p < size; ++p) attention[p] /= static_cast<float>(heads_.count);
    }
  }
  part.cross_out.apply(table, context, width, output, dim_, step.rows, buffers.input);
  part.cross_residual.after(table, x, output, step.rows);
}

}  // namespace sharpbeam
