// How to search: the options of src/sharpbeam/options/search.py by their names there, with None as a number.
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

struct SearchOptions {
  int32_t eos = 0;     // token id
  int64_t vocab = 0;   // V
  bool scores = true;  // whether those of answers are wanted
  int64_t beam_size = 1;
  int64_t num_hypotheses = 1;
  int64_t min_length = 0, max_length = 256;
  double length_penalty = 1.0;
  EarlyStopping early_stopping = EarlyStopping::kFalse;
  double patience = 1.0;
  double stop_margin = std::numeric_limits<double>::infinity();
  double max_score_margin = std::numeric_limits<double>::infinity();
  double max_score_ratio = 0.0;  // 0: none
  int64_t max_children = std::numeric_limits<int64_t>::max();
  Finishing finishing = Finishing::kLeave;
  float repetition_penalty = 1.0f;
  int64_t no_repeat_ngram_size = 0;
  bool forced_eos = false;
  double prefix_bias_beta = 0.0;
  double min_alternative_expansion_prob = 0.0;
  CubePruning cube_pruning = CubePruning::kNone;
  MergeBy merge_by = MergeBy::kWord;
  float merge_threshold = 0.95f;
  // Sampling only:
  double temperature = 1.0;
  int64_t top_k = 0;  // 0: all
  double top_p = 1.0;
  uint64_t seed = 0;
  bool sampling = false;

  bool keeps_beam() const { return beam_size > 1 && !sampling; }

  // Calls visit(name, field) for each option; the names are those of the dataclasses, which a test holds equal.
  template <typename Visit>
  void visit_fields(const Visit& visit) {
    visit("eos_id", eos);
    visit("vocab_size", vocab);
    visit("return_scores", scores);
    visit("beam_size", beam_size);
    visit("num_hypotheses", num_hypotheses);
    visit("min_length", min_length);
    visit("max_length", max_length);
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
    visit("cube_pruning", cube_pruning);
    visit("merge_by", merge_by);
    visit("merge_threshold", merge_threshold);
    visit("temperature", temperature);
    visit("top_k", top_k);
    visit("top_p", top_p);
    visit("seed", seed);
  }
};

}  // namespace sharpbeam
