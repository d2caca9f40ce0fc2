// Which candidates may follow a row, and what they add to its score: the output layer's candidates under the options.
//
// In this order:
// * No log probability may be NaN or +inf, nor above 0 where the stop rule's proof needs sums that only fall.
// * repetition_penalty p multiplies the log probability of every token that is in the row, once, however often it is
//   there (Keskar et al. 2019), and nothing is normalized again: as in Hugging Face's beam search. In greedy search and
//   in sampling it is the logit, as there: multiplied by p where it is negative, divided by p where it is positive.
//   CTranslate2 always takes the logit. A layer that does not have the normalizer of a row gives log probabilities.
// * no_repeat_ngram_size n forbids a token that would complete an n-gram which is in the row (Paulus et al. 2018).
// * Before min_length tokens no hypothesis ends.
// * prefix_bias_beta (as in CTranslate2; Arivazhagan et al. 2020): while a hypothesis is the beginning of its request's
//   target prefix, the probability of each next token is (1 - beta) times the model's, and that of the prefix's next
//   token beta more. A hypothesis that has left the prefix is searched as if there were none. Scores contain the bias;
//   the log probabilities of tokens are the model's own.
// * Of each row the best `keep` candidates are left.
// * Without that bias a target prefix is forced: while a row is shorter, its one candidate is the next token of the
//   prefix. It adds what the prefix says, which is nothing for a target prefix of `Translator`, as in CTranslate2; like
//   there its tokens count for min_length, max_length and the length penalty. Where the prefix says NaN, it adds the
//   model's log probability; a token that the output layer leaves out, at -inf, counts as kLeast.
// * With forced_eos the one candidate for the last token that max_length allows is eos, which adds nothing.
//
// Repetition is looked for in what was generated and in the target prefix, as in CTranslate2; not in the source or the
// prompt. Eos is never in a row, so neither rule changes it. Both are exact, though the output layer finds the best
// tokens only: neither makes a token likelier, so whatever ends up among the k best of a row was among its best k + m,
// where m is the number of tokens of the row that get worse.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "search/forward.h"
#include "search/in_flight.h"
#include "search/options.h"
#include "search/rows.h"
#include "search/tree.h"

namespace sharpbeam {

// A log probability that cannot be one: the weights are broken, or the output layer is not normalized.
struct BrokenModel : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Scratch of one run; it only grows, so warm steps allocate nothing.
class Constraints {
 public:
  // Leaves the best `keep` candidates of each row.
  Constraints(const SearchOptions& options, int64_t keep);

  // Whether logits are penalized: then `apply` needs what was taken off them.
  bool takes_totals() const { return options_.repetition_penalty > 1.0 && !options_.keeps_beam(); }

  // How many candidates of each of these rows the output layer has to find, and how many of them are the row's own [R].
  // To be asked first in a step.
  int64_t wanted(const RowView& rows, const std::vector<RequestRows>& requests, const TokenTree& tree);
  const std::vector<int64_t>& own_wanted() const { return wanted_; }

  // Asks the output layer for the log probability of the next token of prefixes, where it counts. With a bias the token
  // is put among the `k` candidates [R, k] of its row if it is not there: instead of the last one. Throws BrokenModel.
  int64_t complete(const RowView& rows, Forward& forward, const float* hidden, int64_t k, int32_t* token,
                   float* log_prob);
  // Whether a row has one candidate, whose log probability rests on no estimate.
  bool forces(int64_t row) const { return forces_next(row) || forces_eos(row); }

  // The candidates under the rules [R, k], valid until the next call, and while the arrays are. `total` [R] or null:
  // the normalizers, where logits are penalized. Throws BrokenModel.
  Candidates apply(const RowView& rows, int64_t k, const int32_t* token, const float* log_prob,
                   const float* total = nullptr);

  static constexpr float kLeast = -20.0f;

 private:
  struct Candidate {
    int32_t token;
    float log_prob, value;
  };

  // A row in a step: what the rules need to know of it.
  struct RowRules {
    int64_t worse_begin, worse_end;    // tokens that get worse, ascending: worse_[begin : end]
    int64_t banned_begin, banned_end;  // tokens that would complete an n-gram again, ascending: banned_[begin : end]
    int32_t next;                      // the next token of its prefix, or kNone
    float next_log_prob;
    bool last;    // whether it has all tokens but one of those that it may have
    float total;  // its normalizer, where logits are penalized; 0 elsewhere
  };
  static constexpr int32_t kNone = -1;

  bool forces_next(int64_t row) const;
  bool forces_eos(int64_t row) const;
  static void check_sound(const RowView& rows, int64_t row, float log_prob);
  void check(const RowView& rows, int64_t k, const float* log_prob) const;
  void find_repeats(const RowView& rows, const TokenTree& tree);
  void find_next(const RowView& rows, const std::vector<RequestRows>& requests, const TokenTree& tree);
  bool follows(const TokenTree& tree, int32_t node, const std::vector<int32_t>& prefix, int64_t length);
  void apply_to(int64_t row, bool early);
  float value_of(const RowRules& rules, int32_t token, float log_prob) const;
  float penalized(float logit) const {
    const auto penalty = static_cast<float>(options_.repetition_penalty);
    return logit > 0.0f ? logit / penalty : logit * penalty;
  }
  bool asks(const RowRules& rules) const;
  static void leave_only(int32_t token, float log_prob, std::vector<Candidate>& candidates);

  SearchOptions options_;
  int64_t keep_, least_;
  bool repetition_, bias_;
  double less_ = 0.0, more_ = 0.0;  // log(1 - beta), log(beta)

  std::vector<RowRules> rules_;  // [R], of this step
  std::vector<int64_t> wanted_;  // [R]
  bool prefixes_ = false;        // whether any row of this step has a next token of a prefix
  std::vector<int32_t> history_, worse_, banned_;
  std::vector<Candidate> row_;
  std::vector<int32_t> token_;  // [R, k], as are these
  std::vector<float> log_prob_, value_;
  // Tokens of prefixes whose log probability is asked for: hidden vectors, requests and log probabilities.
  std::vector<float> missing_hidden_, missing_log_prob_;
  std::vector<int32_t> missing_row_, missing_token_, missing_request_;
};

}  // namespace sharpbeam
