#include "output/shortlist.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include "python/arrays.h"
#include "python/bindings.h"
#include "search/forward.h"

namespace sharpbeam {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

// Other Python threads go on during a call, so a mutex keeps calls of one run apart.
class Run : public LayerRun {
 public:
  Run(AnyArray weight, AnyArray bias, const char* isa)
      : run_(shared(weight, checked<float>(weight, "weight", {kAnySize, kAnySize})),
             shared(bias, checked<float>(bias, "bias", {static_cast<int64_t>(weight.shape(0))})),
             static_cast<int64_t>(weight.shape(0)), static_cast<int64_t>(weight.shape(1)), table_named(isa)) {}

  void admit(int32_t request, AnyArray words) {
    const int32_t* given = checked<int32_t>(words, "words", {kAnySize});
    alone([&] { run_.admit(request, given, static_cast<int64_t>(words.size())); });
  }

  void evict(AnyArray request) {
    const int32_t* requests = checked<int32_t>(request, "request", {kAnySize});
    alone([&] { run_.evict(requests, static_cast<int64_t>(request.size())); });
  }

  int64_t dim() const override { return run_.dim(); }
  int64_t vocab() const override { return run_.vocab(); }

  // Without the GIL.
  void topk(const float* hidden, const int32_t* request, int64_t rows, int64_t k, float* log_prob,
            int32_t* token) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    run_.topk(hidden, request, rows, k, log_prob, token);
  }

  nb::tuple topk_arrays(AnyArray hidden, int64_t k, AnyArray request) {
    const float* x = checked<float>(hidden, "hidden", {kAnySize, run_.dim()});
    const int64_t rows = static_cast<int64_t>(hidden.shape(0));
    const int32_t* requests = checked<int32_t>(request, "request", {rows});
    const size_t width = static_cast<size_t>(std::clamp<int64_t>(k, 0, run_.vocab()));
    auto log_prob = new_array<float>({hidden.shape(0), width});
    auto token = new_array<int32_t>({hidden.shape(0), width});
    alone([&] { run_.topk(x, requests, rows, k, log_prob.data, token.data); });
    return nb::make_tuple(log_prob.array, token.array);
  }

  nb::object log_prob(AnyArray hidden, AnyArray token, AnyArray request) {
    const float* x = checked<float>(hidden, "hidden", {kAnySize, run_.dim()});
    const int64_t rows = static_cast<int64_t>(hidden.shape(0));
    const int32_t* tokens = checked<int32_t>(token, "token", {rows});
    const int32_t* requests = checked<int32_t>(request, "request", {rows});
    auto out = new_array<float>({hidden.shape(0)});
    alone([&] { run_.log_prob(x, requests, tokens, rows, out.data); });
    return out.array;
  }

  nb::tuple topk_among(AnyArray hidden, int64_t k, AnyArray words, AnyArray start) {
    const float* x = checked<float>(hidden, "hidden", {kAnySize, run_.dim()});
    const int64_t rows = static_cast<int64_t>(hidden.shape(0));
    const Lists lists(words, start, rows);
    const size_t width = static_cast<size_t>(std::clamp<int64_t>(k, 0, run_.vocab()));
    auto log_prob = new_array<float>({hidden.shape(0), width});
    auto token = new_array<int32_t>({hidden.shape(0), width});
    alone([&] { run_.topk_among(x, lists.words, lists.start, rows, k, log_prob.data, token.data); });
    return nb::make_tuple(log_prob.array, token.array);
  }

  nb::object log_prob_among(AnyArray hidden, AnyArray token, AnyArray words, AnyArray start) {
    const float* x = checked<float>(hidden, "hidden", {kAnySize, run_.dim()});
    const int64_t rows = static_cast<int64_t>(hidden.shape(0));
    const int32_t* tokens = checked<int32_t>(token, "token", {rows});
    const Lists lists(words, start, rows);
    auto out = new_array<float>({hidden.shape(0)});
    alone([&] { run_.log_prob_among(x, lists.words, lists.start, tokens, rows, out.data); });
    return out.array;
  }

 private:
  // A list of words for each row: row r has words[start[r]] to words[start[r + 1] - 1].
  struct Lists {
    Lists(const AnyArray& word_array, const AnyArray& start_array, int64_t rows)
        : words(checked<int32_t>(word_array, "words", {kAnySize})),
          start(checked<int32_t>(start_array, "start", {rows + 1})) {
      const int64_t size = static_cast<int64_t>(word_array.size());
      bool rises = start[0] == 0 && start[rows] == size;
      for (int64_t r = 0; r < rows; ++r) rises &= start[r] <= start[r + 1];
      if (!rises) throw std::invalid_argument("start must rise from 0 to the number of words, " + std::to_string(size));
    }
    const int32_t *words, *start;
  };

  template <typename Call>
  void alone(Call call) {
    nb::gil_scoped_release release;
    std::lock_guard<std::mutex> lock(mutex_);
    call();
  }

  ShortlistRun run_;
  std::mutex mutex_;
};

}  // namespace

void bind_shortlist(nb::module_& module) {
  nb::class_<Run, LayerRun>(module, "ShortlistRun")
      .def(nb::init<AnyArray, AnyArray, const char*>(), "weight"_a, "bias"_a, "isa"_a = "auto")
      .def("admit", &Run::admit, "request"_a, "words"_a)
      .def("evict", &Run::evict, "request"_a)
      .def("topk", &Run::topk_arrays, "hidden"_a, "k"_a, "request"_a)
      .def("log_prob", &Run::log_prob, "hidden"_a, "token"_a, "request"_a)
      .def("topk_among", &Run::topk_among, "hidden"_a, "k"_a, "words"_a, "start"_a)
      .def("log_prob_among", &Run::log_prob_among, "hidden"_a, "token"_a, "words"_a, "start"_a);
}

}  // namespace sharpbeam
