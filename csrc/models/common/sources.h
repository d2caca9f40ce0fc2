// What callers give to a decoding run, and its checks. All throw std::invalid_argument before anything is changed.
#pragma once

#include <cstdint>
#include <functional>

namespace sharpbeam {

// Sources one behind the other; every length is 1 or more and every token lies in the vocabulary.
struct Sources {
  const int32_t* token;   // [positions]
  const int32_t* length;  // [count]
  int64_t count;
  int64_t positions;  // sum of the lengths
};

// Throws unless `value` lies between `least` and a limit far above any real model, and far below where a product of
// two sizes overflows.
void check_size(const char* name, int64_t value, int64_t least);

// Throws unless the tokens lie in the vocabulary.
void check_tokens(const char* name, const int32_t* token, int64_t count, int64_t vocab_size);

// Throws unless the sources are as above, and no request stands twice or is `admitted`.
void check_sources(const int32_t* request, const Sources& sources, int64_t vocab_size,
                   const std::function<bool(int32_t)>& admitted);

// Throws that `request` was not admitted.
[[noreturn]] void refuse_request(int32_t request);

}  // namespace sharpbeam
