// The screened layer: every table against the scalar one, the rows that fall back, and what is refused.
#include "output/screen.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "allocations.h"
#include "check.h"
#include "output/exact.h"

namespace {

using namespace sharpbeam;

// Random clusters, each with every `step`-th token from a random one on; all arrays end at forbidden pages.
struct Screened {
  int64_t components;
  Guarded<float> weight, bias, cluster_weight, cluster_bias, residual, residual_bias, center;
  Guarded<int32_t> start;
  std::unique_ptr<Guarded<int32_t>> token;  // made when its size is known
  int64_t vocab, dim;
  ScreenView view{};

  static std::vector<int32_t> sets(int64_t clusters, int64_t vocab, std::vector<int32_t>& starts) {
    std::vector<int32_t> all;
    starts.assign(1, 0);
    for (int64_t t = 0; t < clusters; ++t) {
      const int64_t step = draw_size(1, 5);
      for (int64_t id = draw_size(0, vocab - 1); id < vocab; id += step) all.push_back(static_cast<int32_t>(id));
      starts.push_back(static_cast<int32_t>(all.size()));
    }
    return all;
  }

  Screened(int64_t clusters, int64_t tokens, int64_t width, int64_t fallback_k)
      : components(draw_size(1, 3)),
        weight(tokens * width),
        bias(tokens),
        cluster_weight(clusters * width),
        cluster_bias(clusters),
        residual(clusters * components * width),
        residual_bias(clusters * components),
        center(clusters * width),
        start(clusters + 1),
        vocab(tokens),
        dim(width) {
    for (Guarded<float>* array : {&weight, &bias, &cluster_weight, &cluster_bias, &residual, &residual_bias, &center}) {
      fill(*array, 1.0f);
    }
    std::vector<int32_t> starts;
    const std::vector<int32_t> all = sets(clusters, vocab, starts);
    token = std::make_unique<Guarded<int32_t>>(static_cast<int64_t>(all.size()));
    for (size_t i = 0; i < all.size(); ++i) (*token)[static_cast<int64_t>(i)] = all[i];
    for (size_t i = 0; i < starts.size(); ++i) start[static_cast<int64_t>(i)] = starts[i];
    view.weight = cluster_weight.get();
    view.bias = cluster_bias.get();
    view.start = start.get();
    view.token = token->get();
    view.clusters = clusters;
    if (fallback_k > 0 || draw_size(0, 1) == 0) view.residual = {residual.get(), residual_bias.get(), components};
    const float* centers = fallback_k > 0 ? center.get() : nullptr;
    view.fallback = {centers, fallback_k, 0.5f, 0.25f, 0.25f, 0.0f, -0.25f};
  }
  Array shared(const Guarded<float>& array) const { return Array(Array(), array.get()); }
  ExactLayer exact(const char* isa) const {
    return ExactLayer(shared(weight), shared(bias), vocab, dim, kernels(isa), false);
  }
  ScreenLayer build(const char* isa, bool int8, const RowLayer* fallback) const {
    return ScreenLayer(shared(weight), bias.get(), vocab, dim, view, int8, fallback, kernels(isa));
  }
};

struct Answer {
  Answer(const RowLayer& layer, Guarded<float>& hidden, int64_t rows, int64_t k) : log_prob(rows * k), token(rows * k) {
    layer.topk({hidden.get(), rows}, k, log_prob.get(), token.get());
  }
  bool operator==(const Answer& other) const {
    return same(log_prob.get(), other.log_prob.get(), log_prob.size()) &&
           same(token.get(), other.token.get(), token.size());
  }

  Guarded<float> log_prob;
  Guarded<int32_t> token;
};

void test_shape(int64_t rows, int64_t clusters, int64_t vocab, int64_t dim, int64_t k, bool int8) {
  const Screened screen(clusters, vocab, dim, draw_size(0, k));
  Guarded<float> hidden(rows * dim);
  fill(hidden, 1.0f);
  const ExactLayer exact = screen.exact("scalar");
  const Answer truth(screen.build("scalar", int8, &exact), hidden, rows, k), whole(exact, hidden, rows, k);
  const Answer alone(screen.build("scalar", int8, nullptr), hidden, rows, k);
  int64_t fallen_back = 0;
  for (int64_t r = 0; r < rows; ++r) {  // each row is answered by one of the two
    const auto is = [&](const Answer& other) {
      return same(truth.log_prob.get() + r * k, other.log_prob.get() + r * k, k);
    };
    CHECK(is(whole) || is(alone), "scalar", vocab);
    fallen_back += !is(alone);
  }
  for (const char* const* name = kernel_names(); *name != nullptr; ++name) {
    const ScreenLayer layer = screen.build(*name, int8, &exact);
    CHECK(Answer(layer, hidden, rows, k) == truth, *name, vocab);
    CHECK(layer.rows_seen() == rows && layer.rows_fallen_back() >= fallen_back, *name, vocab);
    Guarded<int32_t> best(rows), token(rows * k);
    Guarded<float> got(rows), again(rows * k);
    const auto warm = [&] { layer.topk({hidden.get(), rows}, k, again.get(), token.get()); };
    CHECK(allocated(warm) == 0, *name, vocab);
    for (int64_t r = 0; r < rows; ++r) best[r] = truth.token.get()[r * k];
    layer.log_prob({hidden.get(), rows}, best.get(), got.get());
    for (int64_t r = 0; r < rows; ++r) {
      CHECK(same(got.get() + r, truth.log_prob.get() + r * k, 1), *name, vocab);
    }
  }
}

void test_threads(bool int8) {
  const Screened screen(9, 300, 20, 3);
  Guarded<float> hidden(60 * 20);
  fill(hidden, 1.0f);
  const ExactLayer exact = screen.exact(kernels().name);
  const ScreenLayer layer = screen.build(kernels().name, int8, &exact);
  const Answer truth(layer, hidden, 60, 5);
  std::vector<int> equal(4, 0);
  std::vector<std::thread> threads;
  for (int& count : equal) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) count += Answer(layer, hidden, 60, 5) == truth;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int count : equal) CHECK(count == 20, kernels().name, 300);
}

void test_refusals() {
  Screened screen(3, 20, 4, 0);
  const auto bad_screen = [&] { return refused([&] { screen.build("scalar", true, nullptr); }); };
  CHECK(!bad_screen(), "scalar", 20);
  for (const int32_t bad : {INT32_MIN, -1, 20, INT32_MAX}) {
    const int32_t before = (*screen.token)[0];
    (*screen.token)[0] = bad;
    CHECK(bad_screen(), "scalar", bad);
    (*screen.token)[0] = before;
  }
  for (const int64_t bad : {INT64_MIN, int64_t{-1}, int64_t{21}, INT64_MAX}) {
    screen.view.fallback.k = bad;
    CHECK(bad_screen(), "scalar", bad);
    screen.view.fallback.k = 0;
  }
  screen.view.residual = {screen.residual.get(), screen.residual_bias.get(), 0};
  CHECK(bad_screen(), "scalar", 0);
  screen.view.residual = {};
  const ScreenLayer other = screen.build("scalar", true, nullptr);
  const ExactLayer narrow = Screened(3, 20, 3, 0).exact("scalar");
  CHECK(refused([&] { screen.build("scalar", true, &other); }), "scalar", 20);
  CHECK(refused([&] { screen.build("scalar", true, &narrow); }), "scalar", 3);
  screen.start[1] = 0;
  CHECK(bad_screen(), "scalar", 0);
}

}  // namespace

TEST(screen) {
  for (int i = 0; i < 60; ++i) {
    const int64_t vocab = draw_size(1, 300);
    test_shape(draw_size(0, 60), draw_size(1, 20), vocab, draw_size(1, 70), draw_size(1, vocab), i % 2 == 0);
  }
  test_threads(true);
  test_threads(false);
  test_refusals();
}
