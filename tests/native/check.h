// Native tests: TEST(name) { ... } defines one, CHECK counts and reports failures, draw() returns random numbers that
// are the same on every machine and in every run of a test.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "guarded.h"

// A test that main() runs if its name contains the filter. It registers itself.
struct Test {
  Test(const char* name, void (*run)());

  const char* name;
  void (*run)();
  Test* next;  // in a list of all
};

#define TEST(name)                                   \
  static void test_##name();                         \
  static Test registered_##name(#name, test_##name); \
  static void test_##name()

// Counts a check, and reports it unless it `holds`.
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
