#include <algorithm>
#include <mutex>

#include "bindings/arrays.h"
#include "bindings/bindings.h"
#include "search/selection.h"

namespace quickbeam {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

struct Columns {
  const int32_t *request, *state, *node, *length, *token;
  const float* log_prob;
};

// The selected candidates as rows: cell, request, state, parent's node, token, length, log_prob, score, each [n].
nb::tuple as_rows(const std::vector<Selected>& selected, const Columns& from, int64_t k) {
  const size_t n = selected.size();
  auto cells = new_array<int64_t>({n});
  auto request = new_array<int32_t>({n}), state = new_array<int32_t>({n}), node = new_array<int32_t>({n});
  auto token = new_array<int32_t>({n}), length = new_array<int32_t>({n});
  auto log_prob = new_array<float>({n});
  auto score = new_array<double>({n});
  for (size_t i = 0; i < n; ++i) {
    const int64_t cell = selected[i].cell, row = cell / k;
    cells.data[i] = cell;
    request.data[i] = from.request[row];
    state.data[i] = from.state[row];
    node.data[i] = from.node[row];
    token.data[i] = from.token[cell];
    length.data[i] = from.length[row] + 1;
    log_prob.data[i] = from.log_prob[cell];
    score.data[i] = selected[i].score;
  }
  return nb::make_tuple(cells.array, request.array, state.array, node.array, token.array, length.array, log_prob.array,
                        score.array);
}

template <typename To, typename From>
nb::object copied(const std::vector<From>& values) {
  auto array = new_array<To>({values.size()});
  std::copy(values.begin(), values.end(), array.data);
  return array.array;
}

class Selector {
 public:
  Selector(int64_t beam, int64_t keep, int32_t eos, int64_t max_length, double margin, double ratio, bool stays)
      : rules_{beam, keep, max_length, margin, ratio, eos, stays} {
    if (beam < 1 || keep < 1) throw std::invalid_argument("beam and keep must be 1 or more");
  }

  nb::tuple select(AnyArray request, AnyArray state, AnyArray node, AnyArray length, AnyArray score, AnyArray token,
                   AnyArray log_prob, AnyArray value, AnyArray top, AnyArray start, AnyArray held) {
    const Columns from{checked<int32_t>(request, "request", {kAnySize}),
                       checked<int32_t>(state, "state", {static_cast<int64_t>(request.size())}),
                       checked<int32_t>(node, "node", {static_cast<int64_t>(request.size())}),
                       checked<int32_t>(length, "length", {static_cast<int64_t>(request.size())}),
                       checked<int32_t>(token, "token", {static_cast<int64_t>(request.size()), kAnySize}),
                       checked<float>(log_prob, "log_prob", {static_cast<int64_t>(request.size()), kAnySize})};
    const auto rows = static_cast<int64_t>(request.size()), k = static_cast<int64_t>(token.shape(1));
    checked<float>(log_prob, "log_prob", {rows, k});
    const SelectionRows given{rows,
                              k,
                              from.request,
                              from.length,
                              checked<double>(score, "score", {rows}),
                              from.token,
                              checked<float>(value, "value", {rows, k})};
    SelectionFinished finished{checked<double>(top, "top", {kAnySize}), checked<int32_t>(start, "start", {kAnySize}),
                               checked<double>(held, "held", {kAnySize})};
    check_finished(finished, count_requests(from.request, rows), top.size(), start.size(), held.size());
    std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
    {
      nb::gil_scoped_release release;
      lock.lock();  // kept until the answer is copied: other Python threads go on meanwhile
      answer_.kept.resize(held.size());
      quickbeam::select(given, finished, rules_, answer_);
    }
    return nb::make_tuple(copied<int64_t>(answer_.first), copied<double>(answer_.best), as_rows(answer_.going, from, k),
                          as_rows(answer_.ended, from, k), copied<bool>(answer_.kept));
  }

 private:
  void check_finished(SelectionFinished& finished, int64_t requests, size_t tops, size_t starts, size_t held) const {
    if (tops == 0) finished.top = nullptr;
    if (tops != 0 && static_cast<int64_t>(tops) != requests)
      throw std::invalid_argument("top has " + std::to_string(tops) + " entries; it must have one for each of the " +
                                  std::to_string(requests) + " requests, or none");
    if (!rules_.stays) return;
    bool fits = static_cast<int64_t>(starts) == requests + 1 && finished.start[0] == 0 &&
                finished.start[requests] == static_cast<int32_t>(held);
    for (int64_t b = 0; fits && b < requests; ++b) fits = finished.start[b] <= finished.start[b + 1];
    if (!fits) throw std::invalid_argument("start must rise from 0 to the size of held, one for each request and one");
  }

  SelectionRules rules_;
  Selection answer_;
  std::mutex mutex_;
};

}  // namespace

void bind_search(nb::module_& module) {
  nb::class_<Selector>(module, "Selector", "One step of beam search; see quickbeam.search.selection.Selector.")
      .def(nb::init<int64_t, int64_t, int32_t, int64_t, double, double, bool>(), "beam"_a, "keep"_a, "eos"_a,
           "max_length"_a, "margin"_a, "ratio"_a, "stays"_a)
      .def("select", &Selector::select, "request"_a, "state"_a, "node"_a, "length"_a, "score"_a, "token"_a,
           "log_prob"_a, "value"_a, "top"_a, "start"_a, "held"_a,
           "Returns first [B], best [B], the rows that go on and those that end, and which of `held` are kept.");
}

}  // namespace quickbeam
