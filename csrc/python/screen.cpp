#include "output/screen.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "python/arrays.h"
#include "python/bindings.h"
#include "search/forward.h"

namespace sharpbeam {
namespace {

namespace nb = nanobind;
using namespace nb::literals;

void construct(ScreenLayer* self, AnyArray weight, AnyArray bias, AnyArray cluster_weight, AnyArray cluster_bias,
               AnyArray start, AnyArray token, const char* isa, bool int8, std::optional<AnyArray> tail,
               std::optional<AnyArray> tail_bias, std::optional<AnyArray> center, int64_t doubt_k, float margin,
               float by_tail, float by_far, float offset, float loosest) {
  const float* w = checked<float>(weight, "weight", {kAnySize, kAnySize});
  const int64_t vocab = static_cast<int64_t>(weight.shape(0)), dim = static_cast<int64_t>(weight.shape(1));
  const float* b = checked<float>(bias, "bias", {vocab});
  ScreenView screen{};
  screen.weight = checked<float>(cluster_weight, "cluster_weight", {kAnySize, dim});
  screen.clusters = static_cast<int64_t>(cluster_weight.shape(0));
  screen.bias = checked<float>(cluster_bias, "cluster_bias", {screen.clusters});
  screen.start = checked<int32_t>(start, "start", {screen.clusters + 1});
  screen.token = checked<int32_t>(token, "token", {screen.start[screen.clusters]});
  if (tail.has_value() != tail_bias.has_value()) throw std::invalid_argument("tail and tail_bias belong together");
  if (tail) {
    screen.tail = checked<float>(*tail, "tail", {screen.clusters, kAnySize, dim});
    screen.pieces = static_cast<int64_t>(tail->shape(1));
    screen.tail_bias = checked<float>(*tail_bias, "tail_bias", {screen.clusters, screen.pieces});
  }
  if ((doubt_k != 0) != center.has_value()) {
    throw std::invalid_argument("doubt_k is " + std::to_string(doubt_k) + "; it must be given with center, or not");
  }
  if (center) screen.center = checked<float>(*center, "center", {screen.clusters, dim});
  screen.doubt_k = doubt_k;
  screen.margin = margin;
  screen.by_tail = by_tail;
  screen.by_far = by_far;
  screen.offset = offset;
  screen.loosest = loosest;
  new (self) ScreenLayer(shared(weight, w), b, vocab, dim, screen, int8, table_named(isa));
}

// Results of few rows come in microseconds: other threads can wait.
template <typename Work>
auto run(int64_t rows, Work work) {
  constexpr int64_t kFewRows = 4;
  if (rows <= kFewRows) return work();
  nb::gil_scoped_release release;
  return work();
}

// The first `found` numbers, None where there are none.
nb::object numbers(const std::vector<int32_t>& all, int64_t found) {
  if (found == 0) return nb::none();
  auto some = new_array<int32_t>({static_cast<size_t>(found)});
  std::copy_n(all.begin(), found, some.data);
  return some.array;
}

// Writes into log_prob and token [rows, k]; gives back the numbers of the doubtful rows, or None where there are none.
// Results are made by the caller because that takes a third of the time.
nb::object topk_of(const ScreenLayer& self, const float* hidden, int64_t rows, int64_t k, float* log_prob,
                   int32_t* token) {
  std::vector<int32_t> doubtful(static_cast<size_t>(rows));
  const int64_t found = run(rows, [&] { return self.topk(hidden, rows, k, log_prob, token, doubtful.data()); });
  return numbers(doubtful, found);
}

nb::object topk_plain(const ScreenLayer& self, nb::handle hidden, nb::handle log_prob, nb::handle token) {
  const PlainArray<const float> x(hidden);
  const PlainArray<float> to(log_prob);
  const PlainArray<int32_t> names(token);
  const int64_t rows = x.rows(), k = to.columns();
  if (x.columns() != self.dim() || to.rows() != rows || names.rows() != rows || names.columns() != k) {
    throw nb::next_overload();
  }
  return topk_of(self, x.data(), rows, k, to.data(), names.data());
}

nb::object topk(const ScreenLayer& self, AnyArray hidden, WritableArray log_prob, WritableArray token) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  const int64_t rows = static_cast<int64_t>(hidden.shape(0));
  const int64_t k = log_prob.ndim() == 2 ? static_cast<int64_t>(log_prob.shape(1)) : 0;
  float* to = writable<float>(log_prob, "log_prob", {rows, k});
  return topk_of(self, x, rows, k, to, writable<int32_t>(token, "token", {rows, k}));
}

// In a decoding run: rows that the screen doubts go to another layer, if there is one.
class ScreenedRun : public LayerRun {
 public:
  ScreenedRun(const ScreenLayer& screen, LayerRun* exact) : screen_(screen), exact_(exact) {}

  int64_t dim() const override { return screen_.dim(); }
  int64_t vocab() const override { return screen_.vocab(); }

  void topk(const float* hidden, const int32_t* request, int64_t rows, int64_t k, float* log_prob,
            int32_t* token) override {
    doubtful_.resize(static_cast<size_t>(rows));
    const int64_t found = screen_.topk(hidden, rows, k, log_prob, token, doubtful_.data());
    if (found == 0 || exact_ == nullptr) return;
    hidden_.reserve(found * dim());
    log_prob_.reserve(found * k);
    request_.resize(static_cast<size_t>(found));
    token_.resize(static_cast<size_t>(found * k));
    for (int64_t i = 0; i < found; ++i) {
      std::copy_n(hidden + doubtful_[i] * dim(), dim(), hidden_.get() + i * dim());
      request_[i] = request[doubtful_[i]];
    }
    exact_->topk(hidden_.get(), request_.data(), found, k, log_prob_.get(), token_.data());
    for (int64_t i = 0; i < found; ++i) {
      std::copy_n(log_prob_.get() + i * k, k, log_prob + doubtful_[i] * k);
      std::copy_n(token_.data() + i * k, k, token + doubtful_[i] * k);
    }
  }

 private:
  const ScreenLayer& screen_;
  LayerRun* exact_;
  std::vector<int32_t> doubtful_;  // [R]
  Buffer hidden_, log_prob_;       // of the rows that are doubtful
  std::vector<int32_t> request_, token_;
};

std::unique_ptr<LayerRun> open(const ScreenLayer& self, LayerRun* exact) {
  return std::make_unique<ScreenedRun>(self, exact);
}

// The cluster of each row.
nb::object assign(const ScreenLayer& self, AnyArray hidden) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  auto cluster = new_array<int32_t>({hidden.shape(0)});
  {
    nb::gil_scoped_release release;
    self.assign(x, static_cast<int64_t>(hidden.shape(0)), cluster.data);
  }
  return cluster.array;
}

nb::tuple topk_union(const ScreenLayer& self, AnyArray hidden, int64_t k) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  const size_t rows = hidden.shape(0), width = static_cast<size_t>(std::clamp<int64_t>(k, 0, self.vocab()));
  auto log_prob = new_array<float>({rows, width});
  auto token = new_array<int32_t>({rows, width});
  {
    nb::gil_scoped_release release;
    self.topk_union(x, static_cast<int64_t>(rows), k, log_prob.data, token.data);
  }
  return nb::make_tuple(log_prob.array, token.array);
}

// (log_prob, numbers of the doubtful rows or None)
nb::tuple log_prob(const ScreenLayer& self, AnyArray hidden, AnyArray token) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  const int64_t rows = static_cast<int64_t>(hidden.shape(0));
  const int32_t* tokens = checked<int32_t>(token, "token", {rows});
  auto out = new_array<float>({hidden.shape(0)});
  std::vector<int32_t> doubtful(static_cast<size_t>(rows));
  const int64_t found = run(rows, [&] { return self.log_prob(x, tokens, rows, out.data, doubtful.data()); });
  return nb::make_tuple(out.array, numbers(doubtful, found));
}

// [R, 5]: best logit, doubt_k-th best, tail, distance to the center, log normaliser
nb::object signs(const ScreenLayer& self, AnyArray hidden) {
  const float* x = checked<float>(hidden, "hidden", {kAnySize, self.dim()});
  auto signs = new_array<float>({hidden.shape(0), static_cast<size_t>(ScreenLayer::kSigns)});
  {
    nb::gil_scoped_release release;
    self.signs(x, static_cast<int64_t>(hidden.shape(0)), signs.data);
  }
  return signs.array;
}

}  // namespace

void bind_screened(nb::module_& module) {
  nb::class_<ScreenLayer>(module, "ScreenLayer")
      .def("__init__", &construct, "weight"_a, "bias"_a, "cluster_weight"_a, "cluster_bias"_a, "start"_a, "token"_a,
           "isa"_a = "auto", "int8"_a = true, "tail"_a = nb::none(), "tail_bias"_a = nb::none(),
           "center"_a = nb::none(), "doubt_k"_a = 0, "margin"_a = 0.0f, "by_tail"_a = 0.0f, "by_far"_a = 0.0f,
           "offset"_a = 0.0f, "loosest"_a = 0.0f)
      .def("topk", &topk_plain, "hidden"_a, "log_prob"_a, "token"_a)
      .def("topk", &topk, "hidden"_a, "log_prob"_a, "token"_a)
      .def("open", &open, "exact"_a.none(), nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>())
      .def("topk_union", &topk_union, "hidden"_a, "k"_a)
      .def("log_prob", &log_prob, "hidden"_a, "token"_a)
      .def("signs", &signs, "hidden"_a)
      .def("assign", &assign, "hidden"_a)
      .def_prop_ro("rows_seen", &ScreenLayer::rows_seen)
      .def_prop_ro("rows_doubtful", &ScreenLayer::rows_doubtful)
      .def_prop_ro("vocab_size", &ScreenLayer::vocab)
      .def_prop_ro("dim", &ScreenLayer::dim)
      .def_prop_ro("packed_bytes", &ScreenLayer::packed_bytes);
}

}  // namespace sharpbeam
