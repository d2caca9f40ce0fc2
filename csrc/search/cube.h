// Cube pruning in beam search (CUBE section 3.4): rows that are alike share one prediction of the next token.
//
// The rows of a request fall into groups, the paper's sub-cubes; the first row of a group is its best, for rows are in
// the order of their scores. In each step, for each request:
// 1. Only the first row of each group is run, and only it is given candidates: the columns of the group. Row i and
//    column j make an item, with the score of the row plus the log probability of the column: exact for the first row,
//    else a guess.
// 2. Items are taken from the best one down. The paper pops them from a heap, into which the right and the lower
//    neighbor of each popped one are pushed; rows and columns are sorted, so that is the order of the scores
//    themselves, and a sort gives the same items (equal ones by row, then column).
// 3. "approximate" (the paper's ACP): the items are the candidates of beam search (search/beam.h), with their guesses
// as
//    scores; they continue from the state of the group's first row.
//    "exact" (NCP): items are taken until beam_size of them do not end. Their rows are run, each from its own state,
//    the items get their exact scores, and these are the candidates. So a returned score is a forced score.
//
// `merge_by` says what is alike: "word", the paper's, rows with the same last token; "likeness", rows whose hidden
// vectors have a cosine of merge_threshold or more, found after every row was run, so that the states are exact and
// only the output layer has less to do; "both", one row of each last token is run, and of these the alike ones share
// their candidates.
//
// The paper takes beam_size items less the number of finished ones; here `finishing` says what becomes of those.
#pragma once

#include <cstdint>
#include <vector>

#include "search/beam.h"

namespace sharpbeam {

class CubeSearch : public BeamSearch {
 public:
  explicit CubeSearch(const SearchOptions& options) : BeamSearch(options) {}

 protected:
  void predict(Forward& forward, const RowView& rows) override;

 private:
  const float* run(Forward& forward, const RowView& rows, const std::vector<int32_t>& which);
  void group_by_token(const RowView& rows);
  void group_by_likeness(const RowView& rows, const float* hidden, int64_t dim);
  void share_candidates(Forward& forward, const RowView& rows, int64_t k, const float* hidden);
  void take_items(const RowView& rows);
  void score_items(Forward& forward, const RowView& rows, const float* hidden);
  void ask(Forward& forward, const RowView& rows, const float* hidden);

  int64_t speaker_of(int64_t row) const { return speaker_[run_of_[row]]; }

  std::vector<int32_t> ran_;      // [G] rows that were run
  std::vector<int32_t> run_of_;   // [R] which of these was run instead of each row
  std::vector<int32_t> speaks_;   // [A] which of these the output layer is asked about
  std::vector<int32_t> speaker_;  // [G] which of those speaks for each row that was run
  std::vector<int64_t> items_;    // [n] places in the flat [R, k]
  std::vector<float> exact_;      // [R, k] log probabilities of the items; -inf for all others
  // Scratch.
  std::vector<int32_t> request_, state_, last_;  // of the rows to run
  std::vector<int32_t> run_states_;              // their new states
  std::vector<int32_t> missing_, place_;
  std::vector<float> unit_;  // [G, D] hidden vectors of length 1
  std::vector<float> asked_hidden_, asked_log_prob_;
  std::vector<int32_t> asked_request_, asked_token_;
  std::vector<int64_t> asked_wanted_;
  std::vector<int64_t> asked_item_;
};

}  // namespace sharpbeam
