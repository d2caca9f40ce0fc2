// The rows of one decoding step.
#pragma once

#include <cstdint>
#include <vector>

namespace sharpbeam {

// What a decoder keeps of one encoded request.
struct Source {
  int64_t positions = 0;         // S
  std::vector<float> values;     // [S, M], or what is read of them, where that is kept (SHARP 4.3)
  std::vector<float> keys;       // [S, A], or
  std::vector<double> mlp_keys;  // [S, A], as the kernels' mlp_keys gives them
};

// R rows that go on from U distinct states ("parents"): siblings differ in their last word only, so the products
// of the old state are computed once for all of them (SHARP 4.5).
struct StepRows {
  int64_t rows;                 // R
  const int32_t* token;         // [R]
  const Source* const* source;  // [R], null for a language model
  const int32_t* parent;        // [R] index into `states`
  int64_t parents;              // U
  const float* states;          // [U, state_dim]
  float* const* next;           // [R] where each row's new state goes
  float* attention = nullptr;   // [R, width] where attention weights go; null where nobody asks
  int64_t width = 0;            // no less than the longest source
};

}  // namespace sharpbeam
