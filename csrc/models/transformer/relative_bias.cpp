#include "models/transformer/relative_bias.h"

#include <algorithm>
#include <cmath>

namespace sharpbeam {
namespace {

// The bucket of a key at `relative` to its query. Half of a direction's buckets hold one distance each, the others
// distances that grow as a logarithm; in float32, as module.py has it.
int64_t bucket_of(int64_t relative, int64_t buckets, int64_t distance, Side side) {
  const bool both = side == Side::encoder;
  const int64_t count = both ? buckets / 2 : buckets, exact = count / 2, first = both && relative > 0 ? count : 0;
  const int64_t size = both ? std::abs(relative) : std::max<int64_t>(-relative, 0);
  if (size < exact) return first + size;
  const float whole = static_cast<float>(std::log(static_cast<double>(distance) / static_cast<double>(exact)));
  const float steps = std::log(static_cast<float>(size) / static_cast<float>(exact)) / whole;
  return first + std::min(exact + static_cast<int64_t>(steps * static_cast<float>(count - exact)), count - 1);
}

}  // namespace

RelativeBias::RelativeBias(const Weights& weights, const std::string& name, const TransformerConfig& config, Side side)
    : heads_(side == Side::encoder ? config.encoder_heads : config.decoder_heads), distance_(config.relative_distance) {
  const int64_t width = 2 * distance_ + 1;
  const Array from = weights.array(name, {config.relative_buckets, heads_});
  bias_.reserve(heads_ * width);
  for (int64_t i = 0; i < width; ++i) {
    const int64_t bucket = bucket_of(i - distance_, config.relative_buckets, distance_, side);
    for (int64_t h = 0; h < heads_; ++h) bias_.get()[h * width + i] = from.get()[bucket * heads_ + h];
  }
}

void RelativeBias::add(const Kernels& table, int64_t query, int64_t size, float* scores) const {
  const int64_t first = std::clamp<int64_t>(query - distance_, 0, size);  // the keys whose distance counts
  const int64_t last = std::clamp<int64_t>(query + distance_ + 1, first, size);
  const float* bias = bias_.get();
  for (int64_t h = 0; h < heads_; ++h, scores += size, bias += 2 * distance_ + 1) {
    for (int64_t p = 0; p < first; ++p) scores[p] += bias[0];
    if (first < last) table.add(scores + first, bias + first - query + distance_, last - first);
    for (int64_t p = last; p < size; ++p) scores[p] += bias[2 * distance_];
  }
}

RelativeBiases::RelativeBiases(const Weights& weights, const TransformerConfig& config, Side side) {
  const std::string name = side == Side::encoder ? "encoder" : "decoder";
  if (side == Side::decoder && config.decoder_kind != DecoderKind::attention) return;
  if (config.positions == Positions::relative_shared)
    biases_.emplace_back(weights, name + "_position_bias", config, side);
  if (config.positions != Positions::relative) return;
  const int64_t layers = side == Side::encoder ? config.encoder_layers : config.decoder_layers;
  for (int64_t i = 0; i < layers; ++i)
    biases_.emplace_back(weights, name + "." + std::to_string(i) + ".attention.position_bias", config, side);
}

}  // namespace sharpbeam
