// How many allocations a call makes: none, where a warm step of decoding is at work.
#pragma once

#include <cstdint>

// Allocations of this process so far; always 0 where nothing counts them.
int64_t allocations();
extern const bool kCountsAllocations;

template <typename Call>
int64_t allocated(Call call) {
  const int64_t before = allocations();
  call();
  return allocations() - before;
}
