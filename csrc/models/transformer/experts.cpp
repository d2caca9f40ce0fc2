#include "models/transformer/experts.h"

#include <algorithm>
#include <limits>

#include "core/file_pages.h"

namespace sharpbeam {

Experts::Experts(const Weights& weights, const std::string& name, const TransformerConfig& config, int64_t width,
                 bool mixture)
    : activation_(config.activation),
      gated_(config.gated_ffn),
      normalized_(config.normalized_gates),
      width_(width),
      dim_(config.hidden_dim) {
  const int64_t count = mixture ? config.experts : 1, inner = gated_ ? 2 * width : width;
  experts_.resize(count);
  const auto pack = [&](const std::string& part, int64_t out, int64_t in, Linear Expert::* layer) {
    const Array matrix = weights.array(name + part + ".weight", {count * out, in});
    const Array bias = config.ffn_bias ? weights.array(name + part + ".bias", {count * out}) : nullptr;
    SequentialRead read(matrix.get());
    for (int64_t e = 0; e < count; ++e) {
      const float* from = matrix.get() + e * out * in;
      experts_[e].*layer =
          Linear(weights.compute_type(), from, out, in, in, bias == nullptr ? nullptr : bias.get() + e * out);
      read.advance_to(from + out * in);
    }
  };
  pack(".up", inner, dim_, &Expert::up);
  pack(".down", dim_, width, &Expert::down);
  if (!mixture) return;
  const Array router = weights.array(name + ".router.weight", {count, dim_});
  const Array bias = config.router_bias ? weights.array(name + ".router.bias", {count}) : nullptr;
  router_ = Linear(ComputeType::float32, router.get(), count, dim_, dim_, bias.get());
}

void Experts::apply(const Kernels& table, const float* x, int64_t rows, float* y, ExpertBuffers& buffers,
                    LinearInput& input) const {
  if (count() == 1) return apply_one(table, experts_[0], x, rows, y, buffers, input);
  route(table, x, rows, buffers, input);
  sort_by_expert(rows, buffers);
  float* answers = reserved(buffers.answers, 2 * rows * dim_);
  const float* gate = buffers.gate.get();
  for (int64_t e = 0; e < count(); ++e) {
    for (int64_t begin = buffers.first[e]; begin < buffers.first[e + 1]; begin += kBlockRows) {
      const int64_t some = std::min(kBlockRows, buffers.first[e + 1] - begin);
      const int32_t* place = buffers.order.data() + begin;
      float* gathered = reserved(buffers.gathered, some * dim_);
      float* found = reserved(buffers.found, some * dim_);
      for (int64_t i = 0; i < some; ++i) std::copy_n(x + place[i] / 2 * dim_, dim_, gathered + i * dim_);
      apply_one(table, experts_[e], gathered, some, found, buffers, input);
      for (int64_t i = 0; i < some; ++i)
        for (int64_t d = 0; d < dim_; ++d) answers[place[i] * dim_ + d] = gate[place[i]] * found[i * dim_ + d];
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(answers + 2 * row * dim_, dim_, y + row * dim_);
    table.add(y + row * dim_, answers + (2 * row + 1) * dim_, dim_);
  }
}

void Experts::apply_one(const Kernels& table, const Expert& expert, const float* x, int64_t rows, float* y,
                        ExpertBuffers& buffers, LinearInput& input) const {
  const int64_t stride = expert.up.out();
  float* inner = reserved(buffers.inner, rows * stride);
  expert.up.apply(table, x, dim_, inner, stride, rows, input);
  for (int64_t i = 0; i < rows; ++i) {
    float* z = inner + i * stride;
    switch (activation_) {
      case Activation::relu:
        table.relu(z, width_);
        break;
      case Activation::gelu:
        table.gelu(z, width_);
        break;
      case Activation::gelu_tanh:
        table.gelu_tanh(z, width_);
        break;
      case Activation::gelu_sigmoid:
        table.swish(z, 1.702f, width_);
        break;
      case Activation::swish:
        table.swish(z, 1.0f, width_);
        break;
    }
    if (gated_) table.mul(z, z + width_, width_);
  }
  expert.down.apply(table, inner, stride, y, dim_, rows, input);
}

void Experts::route(const Kernels& table, const float* x, int64_t rows, ExpertBuffers& buffers,
                    LinearInput& input) const {
  const int64_t experts = count();
  float* logits = reserved(buffers.logits, rows * experts);
  float* gate = reserved(buffers.gate, 2 * rows);
  buffers.expert.resize(2 * rows);
  router_.apply(table, x, dim_, logits, experts, rows, input);
  for (int64_t row = 0; row < rows; ++row) {
    const float* z = logits + row * experts;
    int32_t best = 0;  // ties by lower number; two valid ones also where logits are NaN
    for (int32_t e = 1; e < experts; ++e)
      if (z[e] > z[best]) best = e;
    int32_t second = best == 0 ? 1 : 0;
    for (int32_t e = second + 1; e < experts; ++e)
      if (e != best && z[e] > z[second]) second = e;
    buffers.expert[2 * row] = best;
    buffers.expert[2 * row + 1] = second;
  }
  table.softmax(logits, rows, experts);
  for (int64_t place = 0; place < 2 * rows; ++place) gate[place] = logits[place / 2 * experts + buffers.expert[place]];
  for (int64_t row = 0; normalized_ && row < rows; ++row) {
    const float sum = std::max(gate[2 * row] + gate[2 * row + 1], std::numeric_limits<float>::epsilon());
    gate[2 * row] /= sum;
    gate[2 * row + 1] /= sum;
  }
}

void Experts::sort_by_expert(int64_t rows, ExpertBuffers& buffers) const {
  buffers.order.resize(2 * rows);
  buffers.first.assign(count() + 1, 0);
  for (int64_t place = 0; place < 2 * rows; ++place) ++buffers.first[buffers.expert[place] + 1];
  for (int64_t e = 0; e < count(); ++e) buffers.first[e + 1] += buffers.first[e];
  for (int64_t place = 0; place < 2 * rows; ++place)  // moves each `first` to the next one's
    buffers.order[buffers.first[buffers.expert[place]]++] = static_cast<int32_t>(place);
  std::copy_backward(buffers.first.begin(), buffers.first.end() - 1, buffers.first.end());
  buffers.first[0] = 0;
}

}  // namespace sharpbeam
