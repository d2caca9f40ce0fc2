#include "models/transformer/layers.h"

#include <algorithm>
#include <cmath>

#include "linear/panels.h"

namespace sharpbeam {
namespace {

constexpr int64_t kCachedSines = 512;  // positions whose sines are stored

}  // namespace

Linear linear(const Weights& weights, const std::string& name, int64_t out, int64_t in, bool bias, int64_t scaled,
              float scale) {
  const std::string matrix = name + ".weight", shift = name + ".bias";
  if (scaled == 0 || scale == 1.0f)
    return bias ? weights.linear(matrix, shift, out, in) : weights.linear(matrix, out, in);
  const Array values = weights.array(matrix, {out, in});
  const float* from = values.get();
  Buffer scaled_matrix(out * in);
  std::vector<float> scaled_shift;
  SequentialRead read(from);
  for (int64_t n = 0; n < out; ++n) {
    const float factor = n < scaled ? scale : 1.0f;
    for (int64_t i = n * in; i < (n + 1) * in; ++i) scaled_matrix.get()[i] = from[i] * factor;
    read.advance_to(from + (n + 1) * in);
  }
  if (bias) {
    const Array added = weights.array(shift, {out});
    scaled_shift.assign(added.get(), added.get() + out);
    for (int64_t i = 0; i < scaled; ++i) scaled_shift[i] *= scale;
  }
  return Linear(weights.compute_type(), scaled_matrix.get(), out, in, in, bias ? scaled_shift.data() : nullptr);
}

Norm::Norm(const Weights& weights, const std::string& name, const TransformerConfig& config)
    : weight_(config.hidden_dim),
      bias_(config.hidden_dim),
      dim_(config.hidden_dim),
      epsilon_(config.norm_epsilon),
      rms_(config.norm_kind == NormKind::rms) {
  std::copy_n(weights.array(name + ".weight", {dim_}).get(), dim_,
              weight_.get());  // copied, because a view would keep a page of the file
  if (!rms_) std::copy_n(weights.array(name + ".bias", {dim_}).get(), dim_, bias_.get());
}

void Norm::apply(const Kernels& table, float* x, const float* added, float* y, int64_t rows) const {
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = row * dim_;
    const float* more = added ? added + at : nullptr;
    if (rms_)
      table.add_rms_norm(x + at, more, weight_.get(), epsilon_, y + at, dim_);
    else
      table.add_norm(x + at, more, weight_.get(), bias_.get(), epsilon_, y + at, dim_);
  }
}

Residual::Residual(const Weights& weights, const std::string& name, const TransformerConfig& config)
    : norm_(weights, name + ".norm", config), pre_norm_(config.norm == NormPlacement::pre), dim_(config.hidden_dim) {}

const float* Residual::before(const Kernels& table, float* x, Buffer& normalized, int64_t rows) const {
  if (!pre_norm_) return x;
  float* y = reserved(normalized, rows * dim_);
  norm_.apply(table, x, nullptr, y, rows);
  return y;
}

void Residual::after(const Kernels& table, float* x, const float* output, int64_t rows) const {
  if (pre_norm_)
    table.add(x, output, rows * dim_);
  else
    norm_.apply(table, x, output, x, rows);
}

Heads::Heads(int64_t heads, const TransformerConfig& config) : count(heads), dim(config.attention_dim(heads) / heads) {
  if (config.scaled_attention) scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
}

void Heads::attend(const Kernels& table, const float* query, int64_t at, const float* const* positions, int64_t size,
                   int64_t key, int64_t value, const RelativeBias* bias, float* scores, float* context) const {
  table.multihead_scores(query, positions, key, scores, size, size, count, dim);
  if (bias != nullptr) bias->add(table, at, size, scores);
  table.softmax(scores, count, size);
  table.multihead_context(scores, size, positions, value, context, size, count, dim);
}

void Heads::pack(const float* key_values, int64_t size, float* packed) const {
  const int64_t width = count * dim;
  const auto pack_as = [&]<typename Number>(Number* keys) {
    Number* values = keys + count * packed_size(dim, size);
    if (dim % kPanel != 0) std::fill_n(values, count * packed_size(size, dim), Number(0.0f));
    for (int64_t h = 0; h < count; ++h, keys += packed_size(dim, size), values += packed_size(size, dim)) {
      const auto key_of = [&](int64_t p) { return key_values + 2 * p * width + h * dim; };
      pack_rows(size, dim, key_of, keys);
      for (int64_t p = 0; p < size; ++p) {
        const float* value = key_of(p) + width;
        for (int64_t i = 0; i < dim; i += kPanel)
          std::copy_n(value + i, std::min<int64_t>(kPanel, dim - i), values + i * size + p * kPanel);
      }
    }
  };
  rounded ? pack_as(reinterpret_cast<BFloat16*>(packed)) : pack_as(packed);
}

void Heads::attend_packed(const Kernels& table, const float* query, int64_t rows, const float* packed, int64_t size,
                          float* scores, float* context) const {
  const int64_t width = count * dim, all = count * size;
  const auto attend = [&](auto gemm, const auto* from) {
    for (int64_t h = 0; h < count; ++h, from += packed_size(dim, size))
      gemm(from, nullptr, query + h * dim, width, scores + h * size, all, rows, dim, size);
    table.softmax(scores, rows * count, size);
    for (int64_t h = 0; h < count; ++h, from += packed_size(size, dim))
      gemm(from, nullptr, scores + h * size, all, context + h * dim, width, rows, size, dim);
  };
  rounded ? attend(table.gemm_bfloat16, reinterpret_cast<const BFloat16*>(packed)) : attend(table.gemm, packed);
}

FeedForward::FeedForward(const Weights& weights, const std::string& name, const TransformerConfig& config,
                         int64_t width, bool mixture)
    : residual_(weights, name, config), experts_(weights, name, config, width, mixture), dim_(config.hidden_dim) {}

void FeedForward::apply(const Kernels& table, float* x, int64_t rows, TransformerBuffers& buffers) const {
  const int64_t most = experts_.count() > 1 ? rows : Experts::kBlockRows;  // a mixture divides all rows among experts
  for (int64_t row = 0; row < rows; row += most, x += most * dim_) {
    const int64_t count = std::min(most, rows - row);
    float* output = reserved(buffers.output, count * dim_);
    experts_.apply(table, residual_.before(table, x, buffers.normalized, count), count, output, buffers.experts,
                   buffers.input);
    residual_.after(table, x, output, count);
  }
}

Embedding::Embedding(const Weights& weights, const std::string& side, const TransformerConfig& config)
    : config_(config) {
  const int64_t dim = config.hidden_dim;
  const bool source = side == "source" && !config.shared_embedding;
  tokens_ = source ? weights.array("source_embedding", {config.source_vocab_size, dim})
                   : weights.array("target_embedding", {config.target_vocab_size, dim});
  file_ = FileRows(tokens_.get(), source ? config.source_vocab_size : config.target_vocab_size, dim);
  if (config.embedding_norm) norm_ = Norm(weights, side + "_embedding_norm", config);
  if (config.positions == Positions::learned)
    learned_ = weights.array(side + "_positions", {config.max_positions, dim});
  if (config.positions != Positions::sinusoidal && config.positions != Positions::sinusoidal_t2t) return;
  const int64_t half = dim / 2, steps = config.positions == Positions::sinusoidal ? half : half - 1;
  for (int64_t i = 0; i < half; ++i)
    frequency_.push_back(std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(steps)));
  std::vector<float> sines(kCachedSines * dim, 0.0f);
  for (int64_t position = 0; position < kCachedSines; ++position) add_sines(position, sines.data() + position * dim);
  sines_ = std::move(sines);
}

void Embedding::add_sines(int64_t position, float* x) const {
  const int64_t half = config_.hidden_dim / 2;
  if (position < static_cast<int64_t>(sines_.size()) / (2 * half)) {
    const float* sines = sines_.data() + position * 2 * half;
    for (int64_t i = 0; i < 2 * half; ++i) x[i] += sines[i];
    return;
  }
  for (int64_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(config_.position_offset + position) * frequency_[i];
    x[i] += static_cast<float>(std::sin(angle));
    x[half + i] += static_cast<float>(std::cos(angle));
  }
}

void Embedding::apply(const Kernels& table, int32_t token, int64_t position, float* x) const {
  const int64_t dim = config_.hidden_dim;
  const float scale = config_.scaled_embedding ? static_cast<float>(std::sqrt(static_cast<double>(dim))) : 1.0f;
  if (file_) file_.read(token, x);
  const float* row = file_ ? x : tokens_.get() + token * dim;
  for (int64_t i = 0; i < dim; ++i) x[i] = row[i] * scale;
  if (config_.positions == Positions::learned) {
    table.add(x, learned_.get() + position * dim, dim);
  } else if (!frequency_.empty()) {
    add_sines(position, x);
  }
  if (config_.embedding_norm) norm_.apply(table, x, nullptr, x, 1);
}

}  // namespace sharpbeam
