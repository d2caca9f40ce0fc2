#include "search/expansion.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sharpbeam {
namespace {

SearchOptions without_eos(SearchOptions options) {
  options.min_length = std::numeric_limits<int64_t>::max();
  options.forced_eos = false;
  return options;
}

}  // namespace

Expansion::Expansion(const SearchOptions& options)
    : Search(without_eos(options), std::min(options.num_hypotheses, options.vocab)),
      lowest_(std::log(options.min_alternative_expansion_prob)) {}

void Expansion::advance(const RowView& rows) {
  reserve(rows.rows * candidates_.k);
  for (const RequestRows& request : requests_) {
    const int64_t row = request.first, begin = row * candidates_.k;  // it has one row
    const auto score = [&](int64_t cell) { return rows.score[row] + static_cast<double>(candidates_.value[cell]); };
    if (rows.length[row] < static_cast<int64_t>(request.request->prefix.size())) {
      grow(rows, begin, score(begin));
      continue;
    }
    std::vector<Finished>& found = request.request->pool.best;
    for (int64_t cell = begin; cell < begin + candidates_.k; ++cell) {
      if (candidates_.value[cell] == -std::numeric_limits<float>::infinity()) continue;
      const bool likely = static_cast<double>(candidates_.log_prob[cell]) >= lowest_;
      if (likely || found.empty()) found.push_back({score(cell), score(cell), add_node(rows, cell)});
    }
    close(request, 0);
  }
}

}  // namespace sharpbeam
