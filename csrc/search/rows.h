// Live hypotheses as columns: Rows of src/sharpbeam/types.py.
#pragma once

#include <cstdint>
#include <vector>

namespace sharpbeam {

// The rows of a request stand side by side.
struct RowView {
  int64_t rows;                                            // R
  const int32_t *request, *state, *token, *node, *length;  // [R]
  const double* score;                                     // [R]
};

// Rows with memory of their own, which only grows.
struct RowColumns {
  std::vector<int32_t> request, state, token, node, length;
  std::vector<double> score;

  int64_t size() const { return static_cast<int64_t>(score.size()); }

  void resize(int64_t rows) {
    const auto n = static_cast<size_t>(rows);
    for (auto* column : {&request, &state, &token, &node, &length}) column->resize(n);
    score.resize(n);
  }

  void push(int32_t of_request, int32_t with_state, int32_t last_token, int32_t last_node, int32_t tokens, double sum) {
    request.push_back(of_request);
    state.push_back(with_state);
    token.push_back(last_token);
    node.push_back(last_node);
    length.push_back(tokens);
    score.push_back(sum);
  }

  RowView view() const {
    return {size(), request.data(), state.data(), token.data(), node.data(), length.data(), score.data()};
  }
};

// k candidates of each row, best first.
struct Candidates {
  int64_t k;
  const int32_t* token;   // [R, k]
  const float* log_prob;  // [R, k] what the model says
  const float* value;     // [R, k] what is added to the score of the row; -inf: not allowed
};

}  // namespace sharpbeam
