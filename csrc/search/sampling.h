// Sampling: `num_hypotheses` answers for each request, each drawn by itself, token by token, from what the model says.
//
// In each step a row draws one of its candidates. As in Hugging Face and CTranslate2, log probabilities are divided by
// `temperature`; then the `top_k` likeliest stay; then of these the fewest that have the probability `top_p` together,
// where the one that reaches it stays too. The token is the first one, from the likeliest down, at which the sum of the
// probabilities that stay exceeds a random number.
//
// The random numbers of a sample come from a counter (search/philox.h), keyed by the seed, a hash of the source and
// prefix of the request, the sample and the step. So they depend neither on the batch nor on its order, the threads or
// the schedule, and the first of several samples is the one that is drawn alone. The same text twice has the same
// samples.
//
// Answers are in the order in which they were drawn: sorting them would make the first one the luckiest. Their scores
// are those of the model itself: log probabilities before temperature, top_k and top_p.
#pragma once

#include <cstdint>
#include <vector>

#include "search/search.h"

namespace sharpbeam {

class SamplingSearch : public Search {
 public:
  // Of the options of a beam, num_hypotheses, lengths, length_penalty and the rules against repetition matter.
  explicit SamplingSearch(const SearchOptions& options);

 protected:
  void enter(InFlight& entry, const SearchRequest& request) override;
  void check_rows(const RequestRows& request) const override;
  void advance(const RowView& rows) override;

 private:
  // Which candidate of a row to take, by a number in [0, 1); -1 if none is allowed.
  int64_t choose(int64_t row, double number);

  StopRule stop_;
  std::vector<int64_t> order_;  // [k] scratch of `choose`, as is this
  std::vector<double> weight_, total_;
};

}  // namespace sharpbeam
