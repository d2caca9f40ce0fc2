#include <nanobind/stl/string.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "python/arrays.h"
#include "python/bindings.h"
#include "search/beam.h"
#include "search/selection.h"
#include "search/step.h"

namespace sharpbeam {
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
      sharpbeam::select(given, finished, rules_, answer_);
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

std::vector<double> doubles(const AnyArray& array, const char* name, int64_t size) {
  const double* data = checked<double>(array, name, {size});
  return std::vector<double>(data, data + size);
}

class BeamRun {
 public:
  BeamRun(int64_t beam, int64_t keep, int32_t eos, int64_t max_length, double margin, double ratio, bool stays,
          int64_t min_length, int64_t children, const std::string& rule, int64_t answers, int64_t need, int64_t room,
          int64_t enough, double stop_margin, int64_t flatters, AnyArray weight, AnyArray widest)
      : beam_({beam, keep, max_length, margin, ratio, eos, stays, min_length, children},
              {named(rule), answers, need, room, enough, stop_margin, stays, flatters,
               doubles(weight, "weight", max_length + 1), doubles(widest, "widest", max_length)}) {}

  void begin(AnyArray request) {
    const auto* requests = checked<int32_t>(request, "request", {kAnySize});
    const auto count = static_cast<int64_t>(request.size());
    const nb::gil_scoped_release release;  // before the lock: `advance` takes the GIL back while it holds that
    const std::lock_guard<std::mutex> lock(mutex_);
    beam_.begin(requests, count);
  }

  bool cancel(int32_t request) {
    const std::unique_lock<std::mutex> lock = locked();
    return beam_.cancel(request);
  }

  // None where a log probability cannot be one.
  nb::object advance_any(AnyArray request, AnyArray state, AnyArray node, AnyArray length, AnyArray score,
                         AnyArray token, AnyArray log_prob, AnyArray value) {
    const auto rows = static_cast<int64_t>(request.size());
    const auto k = token.ndim() == 2 ? static_cast<int64_t>(token.shape(1)) : kAnySize;
    const BeamRows given{{rows, k, checked<int32_t>(request, "request", {kAnySize}),
                          checked<int32_t>(length, "length", {rows}), checked<double>(score, "score", {rows}),
                          checked<int32_t>(token, "token", {rows, k}), checked<float>(value, "value", {rows, k})},
                         checked<int32_t>(state, "state", {rows}),
                         checked<int32_t>(node, "node", {rows}),
                         checked<float>(log_prob, "log_prob", {rows, k})};
    return advance(given);
  }

  nb::object advance_plain(nb::handle request, nb::handle state, nb::handle node, nb::handle length, nb::handle score,
                           nb::handle token, nb::handle log_prob, nb::handle value) {
    const PlainArray<const int32_t, 1> requests(request), states(state), nodes(node), lengths(length);
    const PlainArray<const double, 1> scores(score);
    const PlainArray<const int32_t> tokens(token);
    const PlainArray<const float> log_probs(log_prob), values(value);
    const int64_t rows = requests.rows(), k = tokens.columns();
    const auto fits = [&](const auto&... each) { return ((each.rows() == rows) && ...); };
    if (!fits(states, nodes, lengths, scores, tokens, log_probs, values) || log_probs.columns() != k ||
        values.columns() != k)
      throw nb::next_overload();
    return advance({{rows, k, requests.data(), lengths.data(), scores.data(), tokens.data(), values.data()},
                    states.data(),
                    nodes.data(),
                    log_probs.data()});
  }

  // None where a log probability cannot be one.
  nb::object step(ModelRun& model, LayerRun& layer, int64_t k, bool whole, AnyArray request, AnyArray state,
                  AnyArray token, AnyArray node, AnyArray length, AnyArray score) {
    const auto rows = static_cast<int64_t>(request.size());
    const LiveRows live{rows,
                        checked<int32_t>(request, "request", {kAnySize}),
                        checked<int32_t>(state, "state", {rows}),
                        checked<int32_t>(token, "token", {rows}),
                        checked<int32_t>(node, "node", {rows}),
                        checked<int32_t>(length, "length", {rows}),
                        checked<double>(score, "score", {rows})};
    const std::unique_lock<std::mutex> lock = locked();
    {
      const nb::gil_scoped_release release;
      if (!turns_.run(model, layer, k, whole, live, beam_)) return nb::none();
    }
    return answer(turns_.work());
  }

 private:
  nb::object advance(const BeamRows& given) {
    const std::unique_lock<std::mutex> lock = locked();
    {
      const nb::gil_scoped_release release;
      if (!beam_.advance(given)) return nb::none();
    }
    return answer({1, given.rows.rows, beam_.requests()});
  }

  // Kept until the answer is copied; waits without the GIL, which who has the lock needs for that.
  std::unique_lock<std::mutex> locked() {
    const nb::gil_scoped_release release;
    return std::unique_lock<std::mutex>(mutex_);
  }

  nb::object answer(const StepWork& work) {
    nb::object moved = nb::make_tuple(columns(beam_.grown()), copied<double>(beam_.grown().score),
                                      nb::make_tuple(work.steps, work.rows, work.requests),
                                      beam_.done().empty() ? nb::none() : nb::object(done()));
    beam_.tidy();
    return moved;
  }

  static Stop named(const std::string& rule) {
    const std::pair<const char*, Stop> names[] = {{"true", Stop::kTrue},
                                                  {"false", Stop::kFalse},
                                                  {"never", Stop::kNever},
                                                  {"proven", Stop::kProven},
                                                  {"exhaustive", Stop::kExhaustive}};
    for (const auto& [name, stop] : names)
      if (rule == name) return stop;
    throw std::invalid_argument("rule is '" + rule + "'; it must be true, false, never, proven or exhaustive");
  }

  // request, state, token, node and length, [5, n].
  static nb::object columns(const GrownRows& grown) {
    const size_t n = grown.request.size();
    auto array = new_array<int32_t>({5, n});
    int32_t* out = array.data;
    for (const auto* column : {&grown.request, &grown.state, &grown.token, &grown.node, &grown.length})
      out = std::copy(column->begin(), column->end(), out);
    return array.array;
  }

  // (request, saved steps, its answers: tokens, log probabilities, log probability, score).
  nb::list done() const {
    nb::list all;
    std::vector<int32_t> token;
    std::vector<float> log_prob;
    for (const Done& one : beam_.done()) {
      nb::list answers;
      for (const Finished& finished : one.answers) {
        beam_.tree().path(finished.node, token, log_prob);
        double sum = 0.0;  // in the order of the search, hence with its bits
        nb::list tokens, log_probs;
        for (int32_t id : token) tokens.append(id);
        for (float each : log_prob) {
          log_probs.append(static_cast<double>(each));
          sum += static_cast<double>(each);
        }
        answers.append(nb::make_tuple(tokens, log_probs, sum, finished.score));
      }
      all.append(nb::make_tuple(one.request, one.saved_steps, answers));
    }
    return all;
  }

  Beam beam_;
  NativeSteps turns_;
  std::mutex mutex_;
};

}  // namespace

void bind_forward(nb::module_& module) {
  nb::class_<ModelRun>(module, "ModelRun", "A decoding run of a model; see sharpbeam.models.door.Decoding.");
}

void bind_search(nb::module_& module) {
  nb::class_<Selector>(module, "Selector", "One step of beam search; see sharpbeam.search.selection.Selector.")
      .def(nb::init<int64_t, int64_t, int32_t, int64_t, double, double, bool>(), "beam"_a, "keep"_a, "eos"_a,
           "max_length"_a, "margin"_a, "ratio"_a, "stays"_a)
      .def("select", &Selector::select, "request"_a, "state"_a, "node"_a, "length"_a, "score"_a, "token"_a,
           "log_prob"_a, "value"_a, "top"_a, "start"_a, "held"_a,
           "Returns first [B], best [B], the rows that go on and those that end, and which of `held` are kept.");
  nb::class_<BeamRun>(module, "Beam", "Bookkeeping of beam search; see sharpbeam.search.native_beam.NativeBeamSearch.")
      .def(nb::init<int64_t, int64_t, int32_t, int64_t, double, double, bool, int64_t, int64_t, const std::string&,
                    int64_t, int64_t, int64_t, int64_t, double, int64_t, AnyArray, AnyArray>(),
           "beam"_a, "keep"_a, "eos"_a, "max_length"_a, "margin"_a, "ratio"_a, "stays"_a, "min_length"_a, "children"_a,
           "rule"_a, "answers"_a, "need"_a, "room"_a, "enough"_a, "stop_margin"_a, "flatters"_a, "weight"_a, "widest"_a)
      .def("begin", &BeamRun::begin, "request"_a, "Take note of new requests.")
      .def("cancel", &BeamRun::cancel, "request"_a, "Forget a request in flight; False where it is not in flight.")
      .def("advance", &BeamRun::advance_plain, "request"_a, "state"_a, "node"_a, "length"_a, "score"_a, "token"_a,
           "log_prob"_a, "value"_a)
      .def("advance", &BeamRun::advance_any, "request"_a, "state"_a, "node"_a, "length"_a, "score"_a, "token"_a,
           "log_prob"_a, "value"_a,
           "One step. Returns request, state, token, node and length of the rows that go on [5, n], their scores [n], "
           "how many steps, rows and steps of requests it took, and what is done or None; None alone where a log "
           "probability is no number.")
      .def("step", &BeamRun::step, "model"_a, "layer"_a, "k"_a, "whole"_a, "request"_a, "state"_a, "token"_a, "node"_a,
           "length"_a, "score"_a,
           "A step of the model, k candidates of each row by the layer, and `advance`. If `whole`, these are all rows "
           "of the run, and more turns may follow until a request is done.");
}

}  // namespace sharpbeam
