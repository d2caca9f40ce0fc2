#include "search/search.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/common/sources.h"
#include "python/arrays.h"
#include "python/bindings.h"
#include "python/config.h"
#include "python/forward.h"
#include "python/gil.h"
#include "search/beam.h"
#include "search/cube.h"
#include "search/expansion.h"
#include "search/native_forward.h"
#include "search/sampling.h"

namespace sharpbeam {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 24;

// The fields of sharpbeam.options.search.SearchOptions and SamplingOptions, with eos_id and vocab_size; None is a
// default. Throws std::invalid_argument.
SearchOptions read_options(nb::dict values) {
  SearchOptions options;
  const ConfigReader reader(values);
  const auto refuse = [&](const char* name, const std::string& allowed) {
    throw std::invalid_argument(std::string(name) + " is " + nb::cast<std::string>(nb::repr(values[name])) +
                                "; it must be " + allowed);
  };
  const auto read = [&](const char* name, auto& field) {
    if constexpr (std::is_enum_v<std::remove_reference_t<decltype(field)>>) {
      reader.choice(name, field);
    } else if (const nb::object value = values[name]; !value.is_none() && !nb::try_cast(value, field)) {
      refuse(name, "a number of its range");
    }
  };
  const auto require = [&](bool holds, const char* name, const std::string& allowed) {
    if (!holds) refuse(name, allowed);
  };
  options.visit_fields(read);
  options.check(require);
  read("vocab_size", options.vocab);
  read("eos_id", options.eos);
  const auto within = [&](const char* name, int64_t value, int64_t least, int64_t most) {
    require(value >= least && value <= most, name, "from " + std::to_string(least) + " to " + std::to_string(most));
  };
  within("vocab_size", options.vocab, 1, kMostTokens);
  within("eos_id", options.eos, 0, options.vocab - 1);
  return options;
}

// The search that the options ask for.
std::unique_ptr<Search> make_search(const std::string& kind, const SearchOptions& options) {
  if (kind == "sampling") return std::make_unique<SamplingSearch>(options);
  if (kind == "expansion") return std::make_unique<Expansion>(options);
  if (kind != "beam") throw std::invalid_argument("kind is '" + kind + "'; it must be beam, sampling or expansion");
  if (options.cube_pruning != CubePruning::kNone && options.beam_size > 1) return std::make_unique<CubeSearch>(options);
  return std::make_unique<BeamSearch>(options);
}

using Options = nb::typed<nb::dict, nb::str, nb::any>;

// The result of a step; the stub has its type (stubs.pat).
struct Stepped : nb::tuple {
  static constexpr auto Name = nb::detail::const_name("Stepped");
};
struct Decoded : nb::tuple {
  static constexpr auto Name = nb::detail::const_name("tuple[Done, Counts]");
};

// A search as Python sees it. Other Python threads continue during a call, so a mutex keeps calls apart.
class SearchRun {
 public:
  SearchRun(const std::string& kind, Options options) : SearchRun(kind, read_options(options)) {}

  void begin(int32_t request, Ids prefix, Floats log_prob, uint64_t name, int64_t max_length) {
    const SearchRequest entering = checked_request(request, prefix, log_prob, name, max_length);
    const std::unique_lock<std::mutex> lock = locked();
    search_->begin(entering);
  }

  // A request from its source on, which has one row at first; nothing else is in flight. After an error the runs of
  // model and layer still hold it.
  Decoded decode(ModelRun& model, LayerRun& layer, int32_t request, int32_t bos, Ids source, Ids prefix,
                 Floats log_prob, int64_t max_length, std::string_view source_language,
                 std::string_view target_language) {
    const SearchRequest entering = checked_request(request, prefix, log_prob, 0, max_length);
    const int32_t* tokens = checked<int32_t>(source, "source", {kAnySize});
    const auto positions = static_cast<int32_t>(source.size());
    const std::unique_lock<std::mutex> lock = locked();
    native_.use(model, layer);
    if (search_->busy()) throw std::invalid_argument("a request is in flight; decode takes one alone");
    RowColumns rows;
    int32_t state;
    {
      const WithoutGil released;
      model.admit(&request, {tokens, &positions, 1, positions}, &state);
      layer.admit({request, {tokens, source.size()}, source_language, target_language});
      search_->begin(entering);
    }
    rows.push(request, state, bos, TokenTree::kRoot, 0, 0.0);
    SearchWork work = take(native_, rows.view(), true);
    while (search_->done().empty()) {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      rows = search_->rows();
      native_.retain(rows.state.data(), rows.size());
      work += take(native_, rows.view(), true);
    }
    {
      const WithoutGil released;
      native_.retain(nullptr, 0);
      model.evict(&request, 1);
      layer.evict(&request, 1);
    }
    const NativeWork making;
    return {nb::make_tuple(done(), counts(work))};
  }

  bool cancel(int32_t request) {
    const std::unique_lock<std::mutex> lock = locked();
    return search_->cancel(request);
  }

  void interrupt() { search_->interrupt(); }

  // The finished hypotheses of a request and the tokens up to one of its nodes; None where it is not in flight.
  nb::object peek(int32_t request, int32_t node) {
    const std::unique_lock<std::mutex> lock = locked();
    const std::optional<std::vector<Finished>> finished = search_->finished(request);
    if (!finished) return nb::none();
    if (!search_->tree().owns(request, node))
      throw std::invalid_argument("node " + std::to_string(node) + " is not one of request " + std::to_string(request));
    std::vector<int32_t> token;
    std::vector<float> log_prob;
    search_->tree().path(node, token, log_prob);
    return nb::make_tuple(answers(*finished), token);
  }

  Stepped step(ModelRun& model, LayerRun& layer, bool whole, Ids request, Ids state, Ids token, Ids node, Ids length,
               Scores score) {
    const RowView rows = view(request, state, token, node, length, score);
    if (whole && rows.rows == 0) throw std::invalid_argument("request is empty; a whole search needs a row");
    const std::unique_lock<std::mutex> lock = locked();
    native_.use(model, layer);
    return run(native_, rows, whole);
  }

  Stepped python_step(nb::handle forward, Ids request, Ids state, Ids token, Ids node, Ids length, Scores score) {
    const RowView rows = view(request, state, token, node, length, score);
    const std::unique_lock<std::mutex> lock = locked();
    PythonForward python(forward, vocab_);
    return run(python, rows, false);
  }

 private:
  SearchRun(const std::string& kind, const SearchOptions& options)
      : search_(make_search(kind, options)), eos_(options.eos), vocab_(options.vocab) {}

  static RowView view(const Ids& request, const Ids& state, const Ids& token, const Ids& node, const Ids& length,
                      const Scores& score) {
    const auto rows = static_cast<int64_t>(request.size());
    return {rows,
            checked<int32_t>(request, "request", {kAnySize}),
            checked<int32_t>(state, "state", {rows}),
            checked<int32_t>(token, "token", {rows}),
            checked<int32_t>(node, "node", {rows}),
            checked<int32_t>(length, "length", {rows}),
            checked<double>(score, "score", {rows})};
  }

  static SearchRequest checked_request(int32_t request, const Ids& prefix, const Floats& log_prob, uint64_t name,
                                       int64_t max_length) {
    const auto size = static_cast<int64_t>(prefix.size());
    if (request < 0) throw std::invalid_argument("request is " + std::to_string(request) + "; it must be 0 or more");
    if (max_length < 0)
      throw std::invalid_argument("max_length is " + std::to_string(max_length) + "; it must be 0 or more");
    return {request,
            {checked<int32_t>(prefix, "prefix", {kAnySize}), prefix.size()},
            {checked<float>(log_prob, "prefix_log_prob", {size}), prefix.size()},
            name,
            max_length};
  }

  // To be called with the lock.
  const SearchWork& take(Forward& forward, const RowView& rows, bool whole) {
    try {
      const WithoutGil released;
      search_->step(forward, rows, whole);
    } catch (const BrokenModel& error) {
      const nb::object kind = nb::module_::import_("sharpbeam.errors").attr("ModelError");
      PyErr_SetString(kind.ptr(), error.what());
      throw nb::python_error();
    }
    return search_->work();
  }

  // To be called with the lock.
  Stepped run(Forward& forward, const RowView& rows, bool whole) {
    const SearchWork& work = take(forward, rows, whole);
    return {nb::make_tuple(columns(search_->rows()), array_of(search_->rows().score.data(), search_->rows().size()),
                           counts(work), search_->done().empty() ? nb::none() : nb::object(done()))};
  }

  static nb::tuple counts(const SearchWork& work) {
    return nb::make_tuple(work.steps, work.expansions, work.request_steps, work.model_rows, work.sub_cubes,
                          work.settled);
  }

  // Kept until the answer is copied; waits without the GIL, which who has the lock needs for that.
  std::unique_lock<std::mutex> locked() {
    std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (lock) return lock;
    const WithoutGil released;
    return std::unique_lock<std::mutex>(mutex_);
  }

  // request, state, token, node and length, [5, n].
  static nb::object columns(const RowColumns& rows) {
    auto array = new_array<int32_t>({5, static_cast<size_t>(rows.size())});
    int32_t* out = array.data;
    for (const auto* column : {&rows.request, &rows.state, &rows.token, &rows.node, &rows.length})
      out = std::copy(column->begin(), column->end(), out);
    return array.array;
  }

  template <typename T>
  static nb::tuple tuple_of(const std::vector<T>& values) {
    auto tuple = nb::steal<nb::tuple>(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
    if (!tuple.is_valid()) nb::raise_python_error();
    for (size_t i = 0; i < values.size(); ++i)
      NB_TUPLE_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), nb::cast(values[i]).release().ptr());
    return tuple;
  }

  // (tokens without eos, log probabilities, log probability, score) of each.
  nb::list answers(const std::vector<Finished>& finished) const {
    nb::list all;
    std::vector<int32_t> token;
    std::vector<float> log_prob;
    for (const Finished& one : finished) {
      search_->tree().path(one.node, token, log_prob);
      double sum = 0.0;  // in the order of the search, hence with its bits
      for (float each : log_prob) sum += static_cast<double>(each);
      if (!token.empty() && token.back() == eos_) token.pop_back();
      all.append(nb::make_tuple(tuple_of(token), tuple_of(log_prob), sum, one.score));
    }
    return all;
  }

  // (request, saved steps, its answers).
  nb::list done() const {
    nb::list all;
    for (const Done& one : search_->done())
      all.append(nb::make_tuple(one.request, one.saved_steps, answers(one.answers)));
    return all;
  }

  std::unique_ptr<Search> search_;
  int32_t eos_;
  int64_t vocab_;
  NativeForward native_;
  std::mutex mutex_;
};

}  // namespace

void bind_forward(nb::module_& module) {
  nb::class_<ModelRun>(module, "ModelRun", "A decoding run of a model; see sharpbeam.models.interface.Decoding.");
}

void bind_search(nb::module_& module) {
  nb::class_<SearchRun>(module, "Search", "A search of one decoding run; see sharpbeam.search.native.NativeSearch.")
      .def(
          nb::init<const std::string&, Options>(), "kind"_a, "options"_a,
          "kind: beam, sampling or expansion; options: fields of SearchOptions and SamplingOptions by name, eos_id and "
          "vocab_size.")
      .def("begin", &SearchRun::begin, "request"_a, "prefix"_a, "prefix_log_prob"_a, "name"_a = 0, "max_length"_a = 0,
           "A new request with its target prefix [P]; `name` is what the random numbers of its samples depend on. "
           "`max_length`, unless 0: a limit of its own. NaN in `prefix_log_prob` stands for what the model says.")
      .def("decode", &SearchRun::decode, "model"_a, "layer"_a, "request"_a, "bos"_a, "source"_a, "prefix"_a,
           "prefix_log_prob"_a, "max_length"_a = 0, "source_language"_a = "", "target_language"_a = "",
           "A request alone, from its source [S] to its answers: it enters model and layer, and leaves them. Returns "
           "what is done and counts of the work.")
      .def("cancel", &SearchRun::cancel, "request"_a, "Forget a request in flight; False where it is not in flight.")
      .def("interrupt", &SearchRun::interrupt, "End a call of step that takes several ones after the current one.")
      .def("peek", &SearchRun::peek, "request"_a, "node"_a, kGuard,
           "What is finished of a request, and the tokens up to one of its nodes; None where it is not in flight.")
      .def("step", &SearchRun::step, "model"_a, "layer"_a, "whole"_a, "request"_a, "state"_a, "token"_a, "node"_a,
           "length"_a, "score"_a, kGuard,
           "One step for each request, or several if `whole`. Returns request, state, token, node and length of the "
           "rows of the next step [5, n], their scores [n], counts of the work, and what is done or None.")
      .def("python_step", &SearchRun::python_step, "forward"_a, "request"_a, "state"_a, "token"_a, "node"_a, "length"_a,
           "score"_a, kGuard, "The same with a search.interface.Forward in Python.");
}

}  // namespace sharpbeam
