// The parts that the layers of encoder and decoder are made of; each is one of module.py, and takes rows of floats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "core/file_pages.h"
#include "models/common/weights.h"
#include "models/transformer/config.h"

namespace sharpbeam {

// Scratch of one decoding run or one encoding; it only grows, so a warm step allocates nothing.
struct TransformerBuffers {
  Buffer x, entered, projected, context, found, scores, inner;
  LinearInput input;
  std::vector<const float*> positions;  // whose keys and values are attended to, one row's behind the other's
  std::vector<int64_t> words;           // where those of each row begin
};

class Norm {
 public:
  Norm() = default;
  Norm(const Weights& weights, const std::string& name, int64_t dim, float epsilon);

  // x += added, where that is not null; then y = norm of x, all [rows, dim]; y may be x.
  void apply(const Kernels& table, float* x, const float* added, float* y, int64_t rows) const;

 private:
  Buffer weight_, bias_;
  int64_t dim_ = 0;
  float epsilon_ = 0.0f;
};

// What stands around each part f of a layer: x becomes x + f(norm(x)), or norm(x + f(x)).
class Sublayer {
 public:
  Sublayer() = default;
  Sublayer(const Weights& weights, const std::string& name, const TransformerConfig& config);

  // What f reads of x [rows, D]: x itself, or `entered`, which is filled.
  const float* enter(const Kernels& table, float* x, Buffer& entered, int64_t rows) const;
  // x [rows, D] behind f, which gave `found` [rows, D].
  void leave(const Kernels& table, float* x, const float* found, int64_t rows) const;

 private:
  Norm norm_;
  bool before_ = true;
  int64_t dim_ = 0;
};

// The product `name` with a bias where `bias` says so; the first `scaled` rows and their bias times `scale`.
Linear linear(const Weights& weights, const std::string& name, int64_t out, int64_t in, bool bias, int64_t scaled = 0,
              float scale = 1.0f);

// Attention of many heads. Its queries come divided by the square root of a head's width.
struct Heads {
  int64_t count = 0;  // H
  int64_t dim = 0;    // of one head

  Heads() = default;
  Heads(int64_t heads, int64_t width) : count(heads), dim(width / heads) {}

  float scale() const;
  // context [H * dim] of `query` [H * dim] at `positions` whose keys lie at positions[p] + key, and values at + value.
  // scores [H, positions] are the weights afterwards.
  void attend(const Kernels& table, const float* query, const float* const* positions, int64_t size, int64_t key,
              int64_t value, float* scores, float* context) const;

  // What stays of `size` positions that many rows attend to: of each head the keys, packed as weights with a position
  // for each output, then of each head the values, with a position for each input.
  int64_t packed(int64_t size) const { return count * (packed_size(dim, size) + packed_size(size, dim)); }
  // Packs rows of a key and a value, 2 * H * dim floats each.
  void pack(const float* pairs, int64_t size, float* packed) const;
  // context [rows, H * dim] of `query` [rows, H * dim] at packed positions: two products for each head, which read its
  // keys and values once for all rows. scores [rows, H, size] are the weights afterwards.
  void attend_packed(const Kernels& table, const float* query, int64_t rows, const float* packed, int64_t size,
                     float* scores, float* context) const;
};

class FeedForward {
 public:
  FeedForward(const Weights& weights, const std::string& name, const TransformerConfig& config, int64_t width);

  // In place, [rows, D].
  void apply(const Kernels& table, float* x, int64_t rows, TransformerBuffers& buffers) const;

 private:
  Sublayer sublayer_;
  Linear up_, down_;
  Activation activation_;
  bool gated_;
  int64_t width_, dim_;
};

// Words and their positions.
class Embedding {
 public:
  Embedding() = default;
  // Of "source" or "target".
  Embedding(const Weights& weights, const std::string& side, const TransformerConfig& config);

  // x [D] of a word; `position` counts from 0, and is below max_positions where positions are learned.
  void apply(const Kernels& table, int32_t token, int64_t position, float* x) const;

 private:
  void add_sines(int64_t position, float* x) const;

  TransformerConfig config_;
  Array words_, learned_;
  FileRows file_;                  // of the words, where they are many
  std::vector<float> sines_;       // of the first positions
  std::vector<double> frequency_;  // [D / 2]
  Norm norm_;
};

}  // namespace sharpbeam
