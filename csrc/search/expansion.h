// The tokens that may stand at one position: after its prefix each request is given its likeliest next tokens.
#pragma once

#include "search/search.h"

namespace sharpbeam {

// One step after the prefix; a hypothesis is the prefix and one more token, never eos, the likeliest first.
//
// There are num_hypotheses of them, or fewer: all but the first have at least the probability
// min_alternative_expansion_prob. Rules against repetition apply.
class Expansion : public Search {
 public:
  explicit Expansion(const SearchOptions& options);

 protected:
  void advance(const RowView& rows) override;

 private:
  double lowest_;  // log probability
};

}  // namespace sharpbeam
