#include "models/common/attention.h"

#include <algorithm>

namespace sharpbeam {

Attention::Attention(const Weights& weights, AttentionKind kind, const std::string& name, int64_t dim,
                     int64_t memory_dim)
    : kind_(kind), key_(weights.linear(name + ".key_weight", name + ".key_bias", dim, memory_dim)) {
  if (kind_ == AttentionKind::mlp) {
    const Array score = weights.array(name + ".score_weight", {dim});
    score_.assign(score.get(), score.get() + dim);
  }
}

Attention::Attention(const Weights& weights, const std::string& key, int64_t dim, int64_t memory_dim)
    : kind_(AttentionKind::general), key_(weights.linear(key, dim, memory_dim)) {}

std::vector<EncodedSource> Attention::encode(const Kernels& table, const std::vector<float>& memory,
                                             const Sources& sources) const {
  std::vector<float> all_keys(sources.positions * dim());
  LinearInput scratch;
  key_.apply(table, memory.data(), memory_dim(), all_keys.data(), dim(), sources.positions, scratch);
  if (kind_ == AttentionKind::tanh_dot) table.tanh(all_keys.data(), sources.positions * dim());
  std::vector<EncodedSource> result(sources.count);
  auto value = memory.begin();
  const float* key = all_keys.data();
  for (int64_t i = 0; i < sources.count; ++i) {
    const int64_t positions = result[i].positions = sources.length[i];
    result[i].values.assign(value, value + positions * memory_dim());
    if (kind_ == AttentionKind::mlp) {
      result[i].mlp_keys.resize(positions * dim());
      table.mlp_keys(key, result[i].mlp_keys.data(), positions * dim());
    } else {
      result[i].keys.assign(key, key + positions * dim());
    }
    value += positions * memory_dim();
    key += positions * dim();
  }
  return result;
}

void Attention::pack(EncodedSource& source) {
  const int64_t positions = source.positions, width = std::ssize(source.values) / positions;
  std::vector<float> panels(packed_size(positions, width));
  for (int64_t first = 0; first < width; first += kPanel)
    for (int64_t i = 0; i < positions; ++i)
      std::copy_n(source.values.data() + i * width + first, std::min<int64_t>(kPanel, width - first),
                  panels.data() + first * positions + i * kPanel);
  source.values = std::move(panels);
}

void Attention::attend(const Kernels& table, float* query, const StepRows& step, Buffer& scratch, float* context,
                       int64_t width) const {
  int64_t stride = step.width;
  for (int64_t row = 0; row < step.rows; ++row) stride = std::max(stride, step.source[row]->positions);
  float* own_scratch = reserved(scratch, 2 * dim() + step.rows * stride);  // a query in doubles first, to be aligned
  double* const mlp_query = reinterpret_cast<double*>(own_scratch);
  float* all_scores = step.attention ? step.attention : own_scratch + 2 * dim();
  if (kind_ == AttentionKind::tanh_dot) table.tanh(query, step.rows * dim());
  for (int64_t row = 0, first = 0; row < step.rows; ++row) {
    const EncodedSource& source = *step.source[row];
    const float* own = query + row * dim();
    float* scores = all_scores + row * stride;
    if (kind_ == AttentionKind::mlp) {
      table.mlp_keys(own, mlp_query, dim());
      table.mlp_scores(mlp_query, source.mlp_keys.data(), score_.data(), scores, source.positions, dim());
    } else {
      table.dot_scores(own, source.keys.data(), scores, source.positions, dim());
    }
    table.softmax(scores, 1, source.positions);
    if (row + 1 < step.rows && step.source[row + 1] == &source) continue;
    table.gemm(source.values.data(), nullptr, all_scores + first * stride, stride, context + first * width, width,
               row + 1 - first, source.positions, width);  // all rows of the source together
    first = row + 1;
  }
}

}  // namespace sharpbeam
