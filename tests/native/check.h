// What the native tests share: checks that count failures, and random numbers that are the same on every machine.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "guarded.h"

// Counts a failure and says where, unless `holds`.
void check(bool holds, const char* what, const char* table, int64_t size);
#define CHECK(condition, table, size) check((condition), #condition, (table), (size))

// A number from -1 to 1 (fill: times `scale`), and one from `low` to `high`.
float draw();
void fill(Guarded<float>& array, float scale);
int64_t draw_size(int64_t low, int64_t high);

// Whether the call throws std::invalid_argument.
template <typename Call>
bool refused(Call call) {
  try {
    call();
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

// Whether n elements have the same bits; any NaN equals any other.
bool same(const float* a, const float* b, int64_t n);
bool same(const int32_t* a, const int32_t* b, int64_t n);

void test_allocations();
void test_kernels();
void test_team();
void test_output_layers();
void test_screen();
void test_shortlist();
void test_search();
void test_recurrent();
void test_lstm_attention();
void test_transformer();
void test_lstm_lm();
