// The number of allocations that a call makes: none in a warm step of decoding.
#pragma once

#include <cstdint>

// Allocations of this process so far; always 0 where they cannot be counted.
int64_t allocations();
extern const bool kCountsAllocations;

template <typename Call>
int64_t allocated(Call call) {
  const int64_t before = allocations();
  call();
  return allocations() - before;
}
