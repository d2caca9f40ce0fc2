// Reads the config of a model from a dict, by the list of fields in its struct (models/common/config.h).
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace sharpbeam {

// A visitor of a config's fields. Throws std::invalid_argument where a field is missing, has another type, or is not
// allowed. The largest size is far above any real model, and far below where the product of two sizes overflows.
class ConfigReader {
 public:
  explicit ConfigReader(nanobind::dict config) : config_(std::move(config)) {}

  void size(const char* name, int64_t& value, int64_t least) const {
    constexpr int64_t kLargest = int64_t{1} << 28;
    value = get<int64_t>(name, "an integer");
    if (value < least || value > kLargest)
      throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) + "; it must be between " +
                                  std::to_string(least) + " and " + std::to_string(kLargest) + ".");
  }

  void number(const char* name, float& value) const { value = get<float>(name, "a number"); }
  void flag(const char* name, bool& value) const { value = get<bool>(name, "True or False"); }

  template <typename Enum>
  void choice(const char* name, Enum& value) const {
    const std::string given = get<std::string>(name, "a string");
    std::string allowed;
    int index = 0;
    for (const char* choice : choice_names(value)) {
      if (given == choice) {
        value = static_cast<Enum>(index);
        return;
      }
      allowed += (index++ ? ", " : "") + std::string(choice);
    }
    throw std::invalid_argument(std::string(name) + " is '" + given + "'; it must be one of " + allowed + ".");
  }

 private:
  template <typename T>
  T get(const char* name, const char* type) const {
    if (!config_.contains(name)) throw std::invalid_argument("the config has no field '" + std::string(name) + "'.");
    T value;
    if (!nanobind::try_cast<T>(config_[name], value))
      throw std::invalid_argument(std::string(name) + " is " +
                                  nanobind::cast<std::string>(nanobind::repr(config_[name])) + "; it must be " + type +
                                  ".");
    return value;
  }

  nanobind::dict config_;
};

template <typename Config>
Config read_config(nanobind::dict dict) {
  Config config;
  config.visit_fields(ConfigReader(std::move(dict)));
  return config;
}

}  // namespace sharpbeam
