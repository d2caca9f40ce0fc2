// The rows of one decoding step.
#pragma once

#include <cstdint>
#include <vector>

namespace sharpbeam {

// The encoding of one request, as a decoder with attention over vectors reads it.
struct EncodedSource {
  int64_t positions = 0;         // S
  std::vector<float> values;     // [S, M], or the results of the matmuls that read them (SHARP 4.3); packed for steps
  std::vector<float> keys;       // [S, A], or
  std::vector<double> mlp_keys;  // [S, A], in the form of the kernel mlp_keys
};

// R rows that extend U distinct states, their parents. Rows with the same parent differ only in their last token, so
// the matmuls of the parent state are computed once for all of them (SHARP 4.5).
struct StepRows {
  int64_t rows;                        // R
  const int32_t* token;                // [R]
  const EncodedSource* const* source;  // [R], null for a language model
  const int32_t* parent;               // [R] index into `states`
  int64_t parents;                     // U
  const float* states;                 // [U, state_dim]
  float* const* next;                  // [R] where to write each row's new state
  float* attention = nullptr;          // [R, width] where to write attention weights, or null
  int64_t width = 0;                   // at least the length of the longest source
};

}  // namespace sharpbeam
