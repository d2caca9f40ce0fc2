#include "search/selection.h"

#include <algorithm>
#include <limits>

namespace sharpbeam {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

// Best first; of equal ones the lower row and the earlier candidate. No two are alike, so any sort gives one order.
bool better(const Selected& a, const Selected& b) { return a.score != b.score ? a.score > b.score : a.cell < b.cell; }

// The `keep` best candidates of the rows from `first` to `last` that are allowed, best first.
void rank(const SelectionRows& rows, int64_t first, int64_t last, const SelectionRules& rules,
          std::vector<Selected>& ranked) {
  const int64_t keep = rules.keep;
  ranked.clear();
  for (int64_t row = first; row < last; ++row) {
    const bool early = rows.length[row] < rules.min_length;
    int64_t children = 0;
    for (int64_t cell = row * rows.k; cell < (row + 1) * rows.k && children < rules.children; ++cell) {
      if (rows.value[cell] == static_cast<float>(kNothing) || (early && rows.token[cell] == rules.eos)) continue;
      ++children;
      const double score = rows.score[row] + static_cast<double>(rows.value[cell]);
      if (score > kNothing) ranked.push_back({cell, score});
    }
  }
  if (static_cast<int64_t>(ranked.size()) > keep) {
    std::nth_element(ranked.begin(), ranked.begin() + (keep - 1), ranked.end(), better);
    ranked.resize(static_cast<size_t>(keep));
  }
  std::sort(ranked.begin(), ranked.end(), better);
}

double floor_below(double best, const SelectionRules& rules) {
  const double floor = best - rules.margin;
  return rules.ratio > 0.0 ? std::max(floor, best * rules.ratio) : floor;
}

// Finished hypotheses and candidates together, finished ones first on ties: the `beam` best have a place. Marks the
// held ones that do, and returns how many of the `possible` best candidates do.
int64_t share(const SelectionFinished& finished, int64_t request, double floor, int64_t beam,
              const std::vector<Selected>& ranked, int64_t possible, std::vector<uint8_t>& kept) {
  const int32_t begin = finished.start[request], end = finished.start[request + 1];
  const double* held = finished.log_prob;
  int64_t places = 0;
  for (; places < possible; ++places) {
    int64_t before = places;
    for (int32_t i = begin; i < end; ++i) before += held[i] >= floor && held[i] >= ranked[places].score;
    if (before >= beam) break;
  }
  for (int32_t i = begin; i < end; ++i) {
    int64_t before = 0;
    for (int32_t j = begin; j < end; ++j)
      before += held[j] >= floor && (held[j] > held[i] || (held[j] == held[i] && j < i));
    for (int64_t c = 0; c < possible && ranked[c].score > held[i]; ++c) ++before;
    kept[i] = held[i] >= floor && before < beam;
  }
  return places;
}

}  // namespace

int64_t count_requests(const int32_t* request, int64_t rows) {
  int64_t count = rows > 0;
  for (int64_t row = 1; row < rows; ++row) count += request[row] != request[row - 1];
  return count;
}

void select(const SelectionRows& rows, const SelectionFinished& finished, const SelectionRules& rules, Selection& out) {
  out.first.clear();
  out.best.clear();
  out.going.clear();
  out.ended.clear();
  int64_t request = 0;
  for (int64_t first = 0, last = 0; first < rows.rows; first = last, ++request) {
    while (last < rows.rows && rows.request[last] == rows.request[first]) ++last;
    rank(rows, first, last, rules, out.ranked);
    const std::vector<Selected>& ranked = out.ranked;
    double best = ranked.empty() ? kNothing : ranked[0].score;
    if (finished.top != nullptr) best = std::max(best, finished.top[request]);
    const double floor = floor_below(best, rules);
    int64_t possible = 0;
    while (possible < static_cast<int64_t>(ranked.size()) && ranked[possible].score >= floor) ++possible;
    if (rules.stays) possible = share(finished, request, floor, rules.beam, ranked, possible, out.kept);
    const bool last_step = rows.length[first] + 1 >= rules.max_length;
    int64_t going = 0;
    out.best.push_back(kNothing);
    for (int64_t rank = 0; rank < possible; ++rank) {
      if (last_step || rows.token[ranked[rank].cell] == rules.eos) {
        if (rank < rules.beam) out.ended.push_back(ranked[rank]);
      } else if (going < rules.beam) {
        if (going++ == 0) out.best.back() = ranked[rank].score;
        out.going.push_back(ranked[rank]);
      }
    }
    out.first.push_back(static_cast<int32_t>(first));
  }
}

}  // namespace sharpbeam
