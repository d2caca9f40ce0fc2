// The options of a search by their names in src/sharpbeam/options/search.py; None is infinity or the largest number.
// Written by .ci/keywords.py: `make stubs WRITE=1`.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace sharpbeam {

enum class EarlyStopping { kTrue, kFalse, kNever, kProven, kExhaustive };
enum class Finishing { kLeave, kStay };
enum class CubePruning { kNone, kExact, kApproximate };
enum class MergeBy { kWord, kLikeness, kBoth };

constexpr auto choice_names(EarlyStopping) { return std::array{"true", "false", "never", "proven", "exhaustive"}; }
constexpr auto choice_names(Finishing) { return std::array{"leave", "stay"}; }
constexpr auto choice_names(CubePruning) { return std::array{"none", "exact", "approximate"}; }
constexpr auto choice_names(MergeBy) { return std::array{"word", "likeness", "both"}; }

struct SearchFields {
  // hypotheses kept; 1 = greedy; models may set it
  int64_t beam_size = 5;
  // answers for each request; beam search gives at most beam_size
  int64_t num_hypotheses = 1;
  // score = log_prob / length ** length_penalty; length counts eos
  double length_penalty = 1.0;
  // when a request is done: true, false or never as in Hugging Face; proven: nothing better can come
  EarlyStopping early_stopping = EarlyStopping::kFalse;
  // true, false and never: beam_size * patience hypotheses have to be finished
  double patience = 1.0;
  // stop when the best live log probability is this far below the best finished one; 3.0 is usual
  double stop_margin = std::numeric_limits<double>::infinity();
  // variable width: drop hypotheses whose log probability is this far below the best of their request
  double max_score_margin = std::numeric_limits<double>::infinity();
  // variable width: drop hypotheses with more than this many times the negative log probability of the best
  double max_score_ratio = std::numeric_limits<double>::infinity();
  // variable width: keep at most this many continuations of one hypothesis
  int64_t max_children = std::numeric_limits<int64_t>::max();
  // leave: a finished hypothesis frees its slot (Hugging Face); stay: it keeps it until beam_size better ones exist
  Finishing finishing = Finishing::kLeave;
  // makes tokens that the hypothesis already has less likely, as in Hugging Face; 1.0 = none
  double repetition_penalty = 1.0;
  // no hypothesis repeats a sequence of this many tokens; 0 = no such rule
  int64_t no_repeat_ngram_size = 0;
  // force eos at max_length (forced_eos_token_id of Hugging Face)
  bool forced_eos = false;
  // bias toward the target prefix instead of forcing it: its next token gets this much probability; 0 = forced
  double prefix_bias_beta = 0.0;
  // return_alternatives: leave out tokens that are less probable, except the likeliest
  double min_alternative_expansion_prob = 0.0;
  // return scores of greedy search too, which then sums over all tokens; otherwise they are None
  bool return_scores = false;
  // hypotheses that are alike share one prediction; exact: what is chosen is scored again, approximate: it is not
  CubePruning cube_pruning = CubePruning::kNone;
  // cube pruning: alike are hypotheses with the same last token (word), similar hidden vectors (likeness), both
  MergeBy merge_by = MergeBy::kWord;
  // cube pruning by likeness: least cosine of hidden vectors; the higher, the closer to plain beam search
  double merge_threshold = 0.95;
  // tokens before eos is allowed, eos not counted
  int64_t min_length = 0;
  // tokens after which a hypothesis is ended, eos counted
  int64_t max_length = 256;
  // log probabilities are divided by it: below 1 favors likely tokens, above 1 rare ones
  double temperature = 1.0;
  // draw from this many of the likeliest tokens; 0 = all, which is slow for large vocabularies
  int64_t top_k = 0;
  // draw from the fewest of the likeliest tokens that have this probability together
  double top_p = 1.0;
  // the same seed draws the same answers for a text, whatever else is in the batch
  uint64_t seed = 0;

  // Calls visit(name, field) for each option.
  template <typename Visit>
  void visit_fields(const Visit& visit) {
    visit("beam_size", beam_size);
    visit("num_hypotheses", num_hypotheses);
    visit("length_penalty", length_penalty);
    visit("early_stopping", early_stopping);
    visit("patience", patience);
    visit("stop_margin", stop_margin);
    visit("max_score_margin", max_score_margin);
    visit("max_score_ratio", max_score_ratio);
    visit("max_children", max_children);
    visit("finishing", finishing);
    visit("repetition_penalty", repetition_penalty);
    visit("no_repeat_ngram_size", no_repeat_ngram_size);
    visit("forced_eos", forced_eos);
    visit("prefix_bias_beta", prefix_bias_beta);
    visit("min_alternative_expansion_prob", min_alternative_expansion_prob);
    visit("return_scores", return_scores);
    visit("cube_pruning", cube_pruning);
    visit("merge_by", merge_by);
    visit("merge_threshold", merge_threshold);
    visit("min_length", min_length);
    visit("max_length", max_length);
    visit("temperature", temperature);
    visit("top_k", top_k);
    visit("top_p", top_p);
    visit("seed", seed);
  }

  // Calls require(holds, name, allowed) for each option with bounds.
  template <typename Require>
  void check(const Require& require) const {
    require(beam_size >= 1 && beam_size <= 10000, "beam_size", "between 1 and 10000");
    require(num_hypotheses >= 1 && num_hypotheses <= 10000, "num_hypotheses", "between 1 and 10000");
    require(length_penalty >= -10 && length_penalty <= 10, "length_penalty", "between -10 and 10");
    require(patience > 0 && patience <= 1000, "patience", "above 0 and at most 1000");
    require(stop_margin >= 0, "stop_margin", "0 or more");
    require(max_score_margin >= 0, "max_score_margin", "0 or more");
    require(max_score_ratio >= 1, "max_score_ratio", "at least 1 and below inf");
    require(max_children >= 1, "max_children", "at least 1 and below 9223372036854775808");
    require(repetition_penalty >= 1 && repetition_penalty <= 1000, "repetition_penalty", "between 1 and 1000");
    require(no_repeat_ngram_size >= 0 && no_repeat_ngram_size <= 100000, "no_repeat_ngram_size",
            "between 0 and 100000");
    require(prefix_bias_beta >= 0 && prefix_bias_beta < 1, "prefix_bias_beta", "at least 0 and below 1");
    require(min_alternative_expansion_prob >= 0 && min_alternative_expansion_prob < 1, "min_alternative_expansion_prob",
            "at least 0 and below 1");
    require(merge_threshold >= -1 && merge_threshold <= 1, "merge_threshold", "between -1 and 1");
    require(min_length >= 0, "min_length", "0 or more");
    require(max_length >= 1 && max_length <= 100000, "max_length", "between 1 and 100000");
    require(temperature > 0 && temperature <= 1000, "temperature", "above 0 and at most 1000");
    require(top_k >= 0, "top_k", "at least 0 and below 9223372036854775808");
    require(top_p > 0 && top_p <= 1, "top_p", "above 0 and at most 1");
  }
};

}  // namespace sharpbeam
