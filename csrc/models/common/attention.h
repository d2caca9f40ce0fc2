// Attention over one source for each row: CUBE eq. 4-5 (mlp), SHARP section 4 (tanh_dot: the dot product of two tanh
// layers), or Luong et al. 2015 eq. 8 (general: the dot product of the key and the query, which is the state itself).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "models/common/rows.h"
#include "models/common/sources.h"
#include "models/common/weights.h"

namespace sharpbeam {

enum class AttentionKind { mlp, tanh_dot, general };
constexpr auto choice_names(AttentionKind) { return std::array{"mlp", "tanh_dot"}; }  // of a config; LSTMs are general

class Attention {
 public:
  // mlp or tanh_dot: `name`.key_weight [dim, memory_dim] and .key_bias, and for mlp .score_weight [dim].
  Attention(const Weights& weights, AttentionKind kind, const std::string& name, int64_t dim, int64_t memory_dim);
  // general: the matrix `key` [dim, memory_dim].
  Attention(const Weights& weights, const std::string& key, int64_t dim, int64_t memory_dim);

  // The encoding of each source: its part of the memory [positions, M], and its keys, which are computed once.
  std::vector<EncodedSource> encode(const Kernels& table, const std::vector<float>& memory,
                                    const Sources& sources) const;

  // The values of a source as `attend` reads them: like the matrix of a gemm, whose depth are the positions.
  static void pack(EncodedSource& source);

  // context [rows, width] of the queries [rows, A], which may be overwritten; packed values are `width` wide. Attention
  // weights go where `step` asks for them, else to `scratch`.
  void attend(const Kernels& table, float* query, const StepRows& step, Buffer& scratch, float* context,
              int64_t width) const;

  int64_t dim() const { return key_.out(); }        // A
  int64_t memory_dim() const { return key_.in(); }  // M

 private:
  AttentionKind kind_;
  Linear key_;
  std::vector<double> score_;  // [A], mlp only
};

}  // namespace sharpbeam
