// Scores that rest on estimated normalizers (LayerRun::estimates), and closer or exact ones where a decision needs
// them.
//
// A row's normalizer is taken off all its candidates, so it is one unknown for all hypotheses that go through that row:
// an estimate, and how far it may be off. Of two hypotheses that took the same steps since, scores differ by what they
// seem to differ by, give or take the errors of the rows that only one of them went through. Where that does not
// settle which is better, exact normalizers of those rows do: many in one call, since that is what makes them cheap. A
// layer that has closer estimates is asked for those first, and what they leave open is marked once more.
//
// Errors of rows are nearly independent: the sum of some is taken to be at most the root of the sum of their squares.
// A preview's row states twice the 99th percentile of a sample, a scan's three deviations; the largest sums that were
// measured are .6 to .8 of that root.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "search/forward.h"
#include "search/in_flight.h"
#include "search/rows.h"
#include "search/tree.h"

namespace sharpbeam {

class OpenScores {
 public:
  explicit OpenScores(TokenTree& tree) : tree_(tree) {}

  // A step's rows: what the layer fills in, and how far the scores of rows may be off against others of their request.
  Estimates* begin(const RowView& rows, const std::vector<RequestRows>& requests);
  const double* spread() const { return spread_.data(); }           // [R]
  double error(int64_t row) const { return error_of(place(row)); }  // of a row's own normalizer
  // Keeps what a step's rows rest on: their hidden vectors [R, dim].
  void keep(const RowView& rows, const std::vector<RequestRows>& requests, const float* hidden, int64_t dim);
  // A row whose candidates do not rest on its normalizer.
  void close(int64_t row) { place_[static_cast<size_t>(row)] = TokenTree::kSettled; }
  // A step whose scores are all exact.
  void rest() { place_.clear(); }
  // Whether this step's scores may rest on estimates.
  bool some() const { return !place_.empty(); }

  // The place of a row's estimate, kSettled where it is exact.
  int32_t place(int64_t row) const { return place_.empty() ? TokenTree::kSettled : place_[static_cast<size_t>(row)]; }

  // How far apart two rows' candidates may be from what they seem, where they are of one request.
  double between(const RowView& rows, int64_t a, int64_t b) const;
  // How far the sum of a hypothesis may be off.
  double of(int32_t node) const;

  // Mark some of what only one of two rows rests on, or a hypothesis does, for the next `settle`: the largest errors
  // first, until the others together are at most `most`, and none of them is more than `each`.
  void mark_between(const RowView& rows, int64_t a, int64_t b, double most);
  void mark(int32_t node, double most, double each = std::numeric_limits<double>::infinity());
  bool marked() const { return !marked_.empty(); }

  // Takes normalizers of what is marked again, and returns how many: the first time closer estimates, if the layer has
  // some, and exact ones the second time. Then `correct` puts scores right, and `done` forgets the marks.
  int64_t settle(Forward& forward);
  // The log probabilities of a row's k candidates.
  void correct(int64_t row, int64_t k, float* log_prob) const;
  // Those of a hypothesis in the tree; whether any changed.
  bool correct(int32_t node);
  void done();

  int64_t places() const { return static_cast<int64_t>(places_.size()); }
  // Frees the places of a request.
  void release(InFlight& request);

 private:
  struct Place {
    float total, error;
    int32_t request;
    bool retaken;  // no longer the first estimate: the next is exact
    bool marked;
    bool alive;    // scratch of release_dead
    double moved;  // what is put on log probabilities: the estimate - what was taken instead
  };

  static constexpr int32_t kChunk = 64;  // places that are made at a time, which stay where they are

  float* hidden_of(int32_t place) const {
    return hidden_[static_cast<size_t>(place / kChunk)].get() + place % kChunk * dim_;
  }
  double error_of(int32_t place) const {
    return place == TokenTree::kSettled ? 0.0 : static_cast<double>(places_[static_cast<size_t>(place)].error);
  }
  double square_of(int32_t place) const { return error_of(place) * error_of(place); }
  void release_dead(const RowView& rows, const RequestRows& request);
  void resize(int64_t dim);  // forgets free places of another width; throws std::invalid_argument if some are in use
  int32_t take();
  void mark_place(int32_t place);
  void mark_largest(double most, double each);  // of some_
  // Calls visit(place) for what only one of two hypotheses of a length rests on.
  template <typename Visit>
  void for_each_between(int32_t a, int32_t b, Visit visit) const;

  TokenTree& tree_;
  int64_t dim_ = 0;
  std::vector<Place> places_;
  std::vector<std::unique_ptr<float[]>> hidden_;  // [places, dim], in chunks
  std::vector<int32_t> free_;
  std::vector<int32_t> marked_;  // places
  // Of a step:
  std::vector<float> total_, error_;  // [R]
  std::vector<double> spread_;        // [R]
  std::vector<int32_t> place_;        // [R]
  Estimates estimates_{};
  // Scratch:
  std::vector<float> asked_, taken_, taken_error_;
  std::vector<std::pair<int32_t, int32_t>> corrected_;  // nodes, and their places
  std::vector<int32_t> request_, node_, some_;
};

}  // namespace sharpbeam
