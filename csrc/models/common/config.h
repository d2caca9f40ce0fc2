// The fields of a model's config, listed once: the list declares the members of the struct, and visit_fields() hands
// each of them to a reader (python/config.h).
//
//   #define SHARPBEAM_TOY_FIELDS(SIZE, NUMBER, FLAG, CHOICE)
//     SIZE(hidden_dim, 1)                         int64_t hidden_dim = 0, at least 1 when it is read
//     NUMBER(norm_epsilon, 1e-5f)                 float norm_epsilon = 1e-5f
//     FLAG(gated_ffn, false)                      bool gated_ffn = false
//     CHOICE(Activation, activation, relu)        Activation activation = Activation::relu
//   struct ToyConfig { SHARPBEAM_CONFIG(SHARPBEAM_TOY_FIELDS) };
//
// A choice is read by name: choice_names(Activation) returns the names in the order of the enum.
#pragma once

#include <cstdint>

#define SHARPBEAM_DECLARE_SIZE(name, least) int64_t name = 0;
#define SHARPBEAM_DECLARE_NUMBER(name, initial) float name = initial;
#define SHARPBEAM_DECLARE_FLAG(name, initial) bool name = initial;
#define SHARPBEAM_DECLARE_CHOICE(Enum, name, initial) Enum name = Enum::initial;

#define SHARPBEAM_VISIT_SIZE(name, least) visitor.size(#name, name, least);
#define SHARPBEAM_VISIT_NUMBER(name, initial) visitor.number(#name, name);
#define SHARPBEAM_VISIT_FLAG(name, initial) visitor.flag(#name, name);
#define SHARPBEAM_VISIT_CHOICE(Enum, name, initial) visitor.choice(#name, name);

#define SHARPBEAM_CONFIG(FIELDS)                                                                             \
  FIELDS(SHARPBEAM_DECLARE_SIZE, SHARPBEAM_DECLARE_NUMBER, SHARPBEAM_DECLARE_FLAG, SHARPBEAM_DECLARE_CHOICE) \
  template <typename Visitor>                                                                                \
  void visit_fields(Visitor&& visitor) {                                                                     \
    FIELDS(SHARPBEAM_VISIT_SIZE, SHARPBEAM_VISIT_NUMBER, SHARPBEAM_VISIT_FLAG, SHARPBEAM_VISIT_CHOICE)       \
  }
