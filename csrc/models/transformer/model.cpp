#include "models/transformer/model.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace sharpbeam {
namespace {

// Throws where the shapes of the tensors do not imply that sizes fit each other.
const TransformerConfig& checked(const TransformerConfig& config) {
  for (const int64_t heads : {config.encoder_heads, config.decoder_heads})
    if (config.head_dim == 0 && config.hidden_dim % heads != 0)
      throw std::invalid_argument("hidden_dim is " + std::to_string(config.hidden_dim) +
                                  "; it must be a multiple of the " + std::to_string(heads) + " heads.");
  const bool relative = config.positions == Positions::relative || config.positions == Positions::relative_shared;
  const int64_t buckets = config.relative_buckets, distance = config.relative_distance;
  constexpr int64_t kMostHeadDim = 1 << 16, kMostDistances = 1 << 24;
  if (config.head_dim > kMostHeadDim)
    throw std::invalid_argument("head_dim is " + std::to_string(config.head_dim) + "; it must be at most " +
                                std::to_string(kMostHeadDim) + ".");
  if (relative && (buckets < 4 || buckets >= 2 * distance ||
                   distance > kMostDistances / std::max(config.encoder_heads, config.decoder_heads)))
    throw std::invalid_argument("relative_buckets is " + std::to_string(buckets) + " and relative_distance " +
                                std::to_string(distance) +
                                "; there must be 4 buckets or more, fewer than twice the distance, and the distance "
                                "times the heads at most " +
                                std::to_string(kMostDistances) + ".");
  const bool mixture = config.encoder_expert_step > 0 || config.decoder_expert_step > 0;
  if (mixture ? config.experts < 2 || config.experts > Experts::kMost : config.experts != 0)
    throw std::invalid_argument("experts is " + std::to_string(config.experts) + "; it must be between 2 and " +
                                std::to_string(Experts::kMost) +
                                " where encoder_expert_step or decoder_expert_step is above 0, and 0 elsewhere.");
  const bool sines = config.positions == Positions::sinusoidal || config.positions == Positions::sinusoidal_t2t;
  if (sines && (config.hidden_dim % 2 != 0 || config.hidden_dim < 4))
    throw std::invalid_argument("hidden_dim is " + std::to_string(config.hidden_dim) +
                                "; with sinusoidal positions it must be even, and 4 or more.");
  return config;
}

}  // namespace

Transformer::Transformer(const TransformerConfig& config, const Weights& weights, const Kernels& table)
    : config_(checked(config)), table_(table), encoder_(weights, config), decoder_(weights, config) {}

TransformerDecoding::TransformerDecoding(std::shared_ptr<const Transformer> model)
    : DecodingBase(model, KvCacheTree(model->config().kv_floats_per_token(),
                                      model->config().decoder_kind == DecoderKind::attention)) {}

void TransformerDecoding::admit(const int32_t* request, const Sources& sources, int32_t* handles) {
  const TransformerConfig& config = model_->config();
  check_admit(request, sources, config.source_vocab_size);
  for (int64_t i = 0; config.positions == Positions::learned && i < sources.count; ++i)
    if (sources.length[i] > config.max_positions)
      throw std::invalid_argument("request " + std::to_string(request[i]) + " has a source of " +
                                  std::to_string(sources.length[i]) + " tokens; the model has positions for " +
                                  std::to_string(config.max_positions) + ".");
  if (sources.count == 0) return;
  TransformerBuffers buffers;  // not buffers_: those of an encoding are far larger than those of a step
  const float* encoded = model_->encoder().encode(model_->table(), sources, buffers);
  std::vector<CrossAttentionCache> caches =
      model_->decoder().cross_attention_caches(model_->table(), sources, encoded, buffers);
  for (int64_t i = 0; i < sources.count; ++i) requests_.insert_or_assign(request[i], std::move(caches[i]));
  pool_.begin(sources.count, handles);
}

void TransformerDecoding::step(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows,
                               float* hidden, int32_t* handles) {
  run(request, state, token, rows, nullptr, 0, hidden, handles);
}

void TransformerDecoding::attend(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows,
                                 float* attention, int64_t width, int32_t* handles) {
  clear_attention(request, rows, attention, width);
  hidden_.reserve(rows * model_->config().hidden_dim);
  run(request, state, token, rows, attention, width, hidden_.get(), handles);
}

void TransformerDecoding::run(const int32_t* request, const int32_t* state, const int32_t* token, int64_t rows,
                              float* attention, int64_t width, float* hidden, int32_t* handles) {
  const TransformerConfig& config = model_->config();
  pool_.check(state, rows);
  check_tokens("token", token, rows, config.target_vocab_size);
  source_.resize(rows);
  for (int64_t row = 0; row < rows; ++row) {
    source_[row] = &this->encoded(request[row]);
    if (config.positions == Positions::learned && pool_.length(state[row]) >= config.max_positions)
      throw std::invalid_argument("state " + std::to_string(row) + " has " + std::to_string(config.max_positions) +
                                  " tokens; the model has positions for no more.");
  }
  if (rows == 0) return;
  parent_.assign(state, state + rows);
  pool_.extend(parent_.data(), rows, handles);
  TransformerRows step{rows, token, source_.data(), parent_.data(), handles};
  step.attention = attention;
  step.width = width;
  model_->decoder().step(model_->table(), step, pool_, buffers_, hidden);
}

}  // namespace sharpbeam
