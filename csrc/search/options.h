// How to search: the options that users have, and what the model and the kind of search add.
#pragma once

#include <cstdint>

#include "search/option_fields.h"

namespace sharpbeam {

struct SearchOptions : SearchFields {
  int32_t eos = 0;        // token id
  int64_t vocab = 0;      // V
  bool sampling = false;  // the kind of search

  bool keeps_beam() const { return beam_size > 1 && !sampling; }
};

}  // namespace sharpbeam
