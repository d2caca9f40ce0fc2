#include "output/token_set.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "linear/panels.h"
#include "output/output_matrix.h"

namespace sharpbeam {

void check_token_set(TokenSet set, int64_t vocab, const char* of) {
  for (size_t i = 0; i < set.size(); ++i) {
    if (set[i] < 0 || set[i] >= vocab || (i > 0 && set[i] <= set[i - 1])) {
      throw std::invalid_argument("token " + std::to_string(i) + " of " + of + " is " + std::to_string(set[i]) +
                                  "; the tokens must ascend, from 0 to " + std::to_string(vocab - 1));
    }
  }
}

void pack_tokens(const float* weight, const float* biases, int64_t dim, TokenSet set, float* packed, float* bias) {
  const auto row_of = [&](int64_t i) { return weight + set[static_cast<size_t>(i)] * dim; };
  pack_rows(std::ssize(set), dim, row_of, packed);
  for (size_t i = 0; i < set.size(); ++i) bias[i] = biases[set[i]];
}

void rank_set(const Kernels& table, float* logits, TokenSet set, int64_t k, float* log_prob, int32_t* token) {
  const int64_t size = static_cast<int64_t>(set.size()), found = std::min(k, size);
  if (found > 0) {
    rank_log_probs(table, logits, set.data(), size, table.log_sum_exp(logits, size), found, log_prob, token);
  }
  std::fill(log_prob + found, log_prob + k, kNever);
  std::fill(token + found, token + k, 0);
}

float log_prob_in_set(const Kernels& table, const float* logits, TokenSet set, int32_t token) {
  const auto found = std::lower_bound(set.begin(), set.end(), token);
  if (found == set.end() || *found != token) return kNever;
  return logits[found - set.begin()] - table.log_sum_exp(logits, static_cast<int64_t>(set.size()));
}

}  // namespace sharpbeam
