// Candidates from the logits of a set of tokens, normalized over the set: tokens outside have probability zero.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/table.h"

namespace sharpbeam {

using TokenSet = std::span<const int32_t>;  // ids, ascending

// Throws std::invalid_argument, which names the set `of` something, unless the ids ascend from 0 to vocab - 1.
void check_token_set(TokenSet set, int64_t vocab, const char* of);

// The output rows [set, dim] and the biases of a set, side by side as in Float32Matrix.
void pack_tokens(const float* weight, const float* biases, int64_t dim, TokenSet set, float* packed, float* bias);

// The k best tokens of one row into `log_prob` and `token` [k], equal log probabilities by lower id; where the set has
// fewer, the others are token 0 with -inf. `logits` [set] are overwritten.
void rank_set(const Kernels& table, float* logits, TokenSet set, int64_t k, float* log_prob, int32_t* token);

// The log probability of one token: the bits of rank_set, -inf outside the set.
float log_prob_in_set(const Kernels& table, const float* logits, TokenSet set, int32_t token);

}  // namespace sharpbeam
