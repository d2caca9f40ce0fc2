// Attention over one source for each row: CUBE eq. 4-5 (mlp), SHARP section 4 (the product of two tanh layers), or
// Luong et al. 2015 eq. 8 (general: the product of key and query, which is the state itself).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "models/common/rows.h"
#include "models/common/sources.h"
#include "models/common/weights.h"
#include "models/gru/config.h"

namespace sharpbeam {

class Attention {
 public:
  Attention(const Weights& weights, const GruConfig& config);
  // Of the kind "general", with the matrix `key` [dim, memory_dim].
  Attention(const Weights& weights, const std::string& key, int64_t dim, int64_t memory_dim);

  // What stays of each source: its part of the memory [positions, M], and its keys, computed once.
  std::vector<Source> split(const Kernels& table, const std::vector<float>& memory, const Sources& sources) const;

  // context [rows, width] of whole queries [rows, A], which may be overwritten; the values of the sources have that
  // width. The weights of each row go where `step` asks for them, or to `scratch`, one row after the other.
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
