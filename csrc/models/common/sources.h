// The arguments of a decoding run, and their checks. All checks throw std::invalid_argument.
#pragma once

#include <cstdint>
#include <functional>

namespace sharpbeam {

// The sources of `count` requests, concatenated without padding.
struct Sources {
  const int32_t* token;   // [positions]
  const int32_t* length;  // [count]
  int64_t count;
  int64_t positions;  // sum of the lengths
};

// Throws unless every token is in the vocabulary.
void check_tokens(const char* name, const int32_t* token, int64_t count, int64_t vocab_size);

// Throws unless every length is 1 or more, the lengths sum to `positions`, every token is in the vocabulary, and no
// request occurs twice or is `admitted` already.
void check_sources(const int32_t* request, const Sources& sources, int64_t vocab_size,
                   const std::function<bool(int32_t)>& admitted);

// Throws that `request` was not admitted.
[[noreturn]] void throw_unknown_request(int32_t request);

}  // namespace sharpbeam
