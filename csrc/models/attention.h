// Attention over one source for each row: CUBE eq. 4-5 (mlp) or SHARP section 4 (the product of two tanh layers).
#pragma once

#include <cstdint>
#include <vector>

#include "models/config.h"
#include "models/weights.h"

namespace quickbeam {

// What the decoder keeps of one encoded request.
struct Source {
  int64_t positions = 0;      // S
  std::vector<float> values;  // [S, M]
  std::vector<float> keys;    // [S, A]
};

class Attention {
 public:
  Attention(const Weights& weights, const RecurrentConfig& config);

  // keys [positions, A] of memory [positions, M], computed once for a request.
  void keys(const Kernels& table, const float* memory, float* keys, int64_t positions) const;

  // The state's share of the query, [rows, H] at `stride` -> [rows, A].
  void query_state(const Kernels& table, const float* state, int64_t stride, float* query, int64_t rows) const;
  // The word's share, [rows, E] -> [rows, A]; the attentional cell only (its query is [state; word]).
  void query_word(const Kernels& table, const float* word, float* query, int64_t rows) const;

  // context [rows, M] of whole queries [rows, A], which are overwritten; `scores` has room for the longest source.
  void attend(const Kernels& table, float* query, const Source* const* sources, float* scores, float* context,
              int64_t rows) const;

  int64_t dim() const { return key_.out(); }        // A
  int64_t memory_dim() const { return key_.in(); }  // M

 private:
  AttentionKind kind_;
  Matrix query_state_, query_word_, key_;
  Array score_;  // [A], mlp only
};

}  // namespace quickbeam
