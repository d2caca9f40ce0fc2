// Facts of a model's config as the bindings get them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <initializer_list>
#include <stdexcept>
#include <string>

namespace sharpbeam {

// The value of an enum fact, by its place in `names`.
template <typename Enum>
Enum choice(nanobind::dict facts, const char* key, std::initializer_list<const char*> names) {
  const std::string value = nanobind::cast<std::string>(facts[key]);
  int index = 0;
  for (const char* name : names) {
    if (value == name) return static_cast<Enum>(index);
    ++index;
  }
  std::string allowed;
  for (const char* name : names) allowed += (allowed.empty() ? "" : ", ") + std::string(name);
  throw std::invalid_argument(std::string(key) + " is '" + value + "'; it must be one of " + allowed + ".");
}

}  // namespace sharpbeam
