// The parts of the layers of encoder and decoder, each the twin of one in module.py. They work on rows of floats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "core/file_pages.h"
#include "models/common/weights.h"
#include "models/transformer/config.h"
#include "models/transformer/experts.h"
#include "models/transformer/relative_bias.h"

namespace sharpbeam {

// Scratch memory of one decoding run or of one encoding; it only grows, so a warm step allocates nothing.
struct TransformerBuffers {
  Buffer x, normalized, qkv, context, output, scores;
  LinearInput input;
  ExpertBuffers experts;
  std::vector<const float*> positions;  // keys and values that rows attend to, those of row 0 first
  std::vector<int64_t> first_position;  // index of each row's first one
};

class Norm {
 public:
  Norm() = default;
  Norm(const Weights& weights, const std::string& name, const TransformerConfig& config);

  // x += added (unless null); then y = norm of x, all [rows, D]; y may be x.
  void apply(const Kernels& table, float* x, const float* added, float* y, int64_t rows) const;

 private:
  Buffer weight_, bias_;  // an RMS norm has no bias
  int64_t dim_ = 0;
  float epsilon_ = 0.0f;
  bool rms_ = false;
};

// Residual connection and layer norm around each sublayer f: x + f(norm(x)) (pre-norm) or norm(x + f(x)) (post-norm).
class Residual {
 public:
  Residual(const Weights& weights, const std::string& name, const TransformerConfig& config);

  // The input of f: norm(x), which is written to `normalized`, or x [rows, D].
  const float* before(const Kernels& table, float* x, Buffer& normalized, int64_t rows) const;
  // Adds the output of f [rows, D] to x [rows, D], and applies the post-norm.
  void after(const Kernels& table, float* x, const float* output, int64_t rows) const;

 private:
  Norm norm_;
  bool pre_norm_ = true;
  int64_t dim_ = 0;
};

// The linear layer `name`, with a bias if `bias`; its first `scaled` rows and their bias are multiplied by `scale`.
Linear linear(const Weights& weights, const std::string& name, int64_t out, int64_t in, bool bias, int64_t scaled = 0,
              float scale = 1.0f);

// Multi-head attention. Queries are scaled already (their weights are multiplied by `scale`).
struct Heads {
  int64_t count = 0;  // H
  int64_t dim = 0;    // of one head
  float scale = 1.0f;
  bool rounded = false;  // packed positions are BFloat16: each step reads those of all its requests

  Heads(int64_t heads, const TransformerConfig& config);

  int64_t width() const { return count * dim; }
  // context [H * dim] of one query [H * dim], at position `at`, over `size` positions, whose keys are at positions[p] +
  // key and values at positions[p] + value; `bias` or null is added to scores. scores [H, size] become the attention
  // weights.
  void attend(const Kernels& table, const float* query, int64_t at, const float* const* positions, int64_t size,
              int64_t key, int64_t value, const RelativeBias* bias, float* scores, float* context) const;

  // Floats of `size` packed positions: for each head the keys, packed as a gemm's weights with a column for each
  // position, then the values, packed with a column for each number of a value.
  int64_t packed(int64_t size) const { return count * (packed_size(dim, size) + packed_size(size, dim)) >> rounded; }
  // Packs rows of a key and a value, 2 * H * dim floats each.
  void pack(const float* key_values, int64_t size, float* packed) const;
  // context [rows, H * dim] of `query` [rows, H * dim] over packed positions: two gemms for each head, which read its
  // keys and values once for all rows. scores [rows, H, size] become the attention weights.
  void attend_packed(const Kernels& table, const float* query, int64_t rows, const float* packed, int64_t size,
                     float* scores, float* context) const;
};

// One expert that all rows take, or a mixture of experts.
class FeedForward {
 public:
  FeedForward(const Weights& weights, const std::string& name, const TransformerConfig& config, int64_t width,
              bool mixture);

  // In place, [rows, D].
  void apply(const Kernels& table, float* x, int64_t rows, TransformerBuffers& buffers) const;

 private:
  Residual residual_;
  Experts experts_;
  int64_t dim_;
};

// Token embeddings and positions.
class Embedding {
 public:
  // `side` is "source" or "target".
  Embedding(const Weights& weights, const std::string& side, const TransformerConfig& config);

  // Writes the embedding of `token` at `position` to x [D]; positions count from 0, and are below max_positions where
  // they are learned.
  void apply(const Kernels& table, int32_t token, int64_t position, float* x) const;

 private:
  void add_sines(int64_t position, float* x) const;

  TransformerConfig config_;
  Array tokens_, learned_;
  FileRows file_;                  // of a large `tokens_`
  std::vector<float> sines_;       // of the first positions
  std::vector<double> frequency_;  // [D / 2]
  Norm norm_;
};

}  // namespace sharpbeam
