#include <algorithm>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "allocations.h"
#include "check.h"
#include "output/screen.h"

namespace {

using sharpbeam::ScreenLayer;
using sharpbeam::ScreenView;

// Random clusters, each with every `step`-th word from a random one on; all arrays end at forbidden pages.
struct Screened {
  int64_t pieces;
  Guarded<float> weight, bias, cluster_weight, cluster_bias, tail, tail_bias, center;
  Guarded<int32_t> start;
  std::unique_ptr<Guarded<int32_t>> token;  // made when its size is known
  int64_t vocab, dim;
  ScreenView view{};

  static std::vector<int32_t> words(int64_t clusters, int64_t vocab, std::vector<int32_t>& starts) {
    std::vector<int32_t> all;
    starts.assign(1, 0);
    for (int64_t t = 0; t < clusters; ++t) {
      const int64_t step = draw_size(1, 5);
      for (int64_t word = draw_size(0, vocab - 1); word < vocab; word += step) {
        all.push_back(static_cast<int32_t>(word));
      }
      starts.push_back(static_cast<int32_t>(all.size()));
    }
    return all;
  }

  Screened(int64_t clusters, int64_t words_of, int64_t width, int64_t doubt_k)
      : pieces(draw_size(1, 3)),
        weight(words_of * width),
        bias(words_of),
        cluster_weight(clusters * width),
        cluster_bias(clusters),
        tail(clusters * pieces * width),
        tail_bias(clusters * pieces),
        center(clusters * width),
        start(clusters + 1),
        vocab(words_of),
        dim(width) {
    for (Guarded<float>* array : {&weight, &bias, &cluster_weight, &cluster_bias, &tail, &tail_bias, &center}) {
      fill(*array, 1.0f);
    }
    std::vector<int32_t> starts;
    const std::vector<int32_t> all = words(clusters, vocab, starts);
    token = std::make_unique<Guarded<int32_t>>(static_cast<int64_t>(all.size()));
    for (size_t i = 0; i < all.size(); ++i) (*token)[static_cast<int64_t>(i)] = all[i];
    for (size_t i = 0; i < starts.size(); ++i) start[static_cast<int64_t>(i)] = starts[i];
    view.weight = cluster_weight.get();
    view.bias = cluster_bias.get();
    view.start = start.get();
    view.token = token->get();
    view.clusters = clusters;
    if (doubt_k > 0 || draw_size(0, 1) == 0) {
      view.tail = tail.get();
      view.tail_bias = tail_bias.get();
      view.pieces = pieces;
    }
    view.center = doubt_k > 0 ? center.get() : nullptr;
    view.doubt_k = doubt_k;
    view.margin = 0.5f;
    view.by_tail = view.by_far = 0.25f;
    view.loosest = -0.25f;
  }
  ScreenLayer build(const char* isa, bool bytes) const {
    return ScreenLayer(sharpbeam::Array(sharpbeam::Array(), weight.get()), bias.get(), vocab, dim, view, bytes,
                       sharpbeam::kernels(isa));
  }
};

struct Answer {
  Guarded<float> log_prob, shared;
  Guarded<int32_t> token, shared_token, doubtful;  // `doubtful`: numbers, and -1 behind them
  int64_t found;

  Answer(const ScreenLayer& output_layer, Guarded<float>& hidden, int64_t rows, int64_t k)
      : log_prob(rows * k), shared(rows * k), token(rows * k), shared_token(rows * k), doubtful(rows) {
    std::fill_n(log_prob.get(), rows * k, 0.0f);  // rows that are doubtful are not written, and must be equal too
    std::fill_n(token.get(), rows * k, 0);
    std::fill_n(doubtful.get(), rows, -1);
    found = output_layer.topk(hidden.get(), rows, k, log_prob.get(), token.get(), doubtful.get());
    std::fill_n(doubtful.get() + found, rows - found, -1);
    output_layer.topk_union(hidden.get(), rows, k, shared.get(), shared_token.get());
  }
  bool is_doubtful(int64_t row) const { return std::binary_search(doubtful.get(), doubtful.get() + found, row); }
  bool operator==(const Answer& other) const {
    return found == other.found && same(doubtful.get(), other.doubtful.get(), doubtful.size()) &&
           same(log_prob.get(), other.log_prob.get(), log_prob.size()) &&
           same(token.get(), other.token.get(), token.size()) &&
           same(shared.get(), other.shared.get(), shared.size()) &&
           same(shared_token.get(), other.shared_token.get(), shared_token.size());
  }
};

void test_shape(int64_t rows, int64_t clusters, int64_t vocab, int64_t dim, int64_t k, bool bytes) {
  const Screened screen(clusters, vocab, dim, draw_size(0, k));
  Guarded<float> hidden(rows * dim);
  fill(hidden, 1.0f);
  const Answer truth(screen.build("scalar", bytes), hidden, rows, k);
  for (const char* const* name = sharpbeam::kernel_names(); *name != nullptr; ++name) {
    const ScreenLayer output_layer = screen.build(*name, bytes);
    CHECK(Answer(output_layer, hidden, rows, k) == truth, *name, vocab);
    Guarded<int32_t> best(rows), doubtful(rows);
    Guarded<float> got(rows);
    Guarded<float> again(rows * k);
    Guarded<int32_t> token(rows * k);
    const auto warm = [&] { output_layer.topk(hidden.get(), rows, k, again.get(), token.get(), doubtful.get()); };
    CHECK(allocated(warm) == 0, *name, vocab);
    for (int64_t r = 0; r < rows; ++r) best[r] = truth.token.get()[r * k];
    const int64_t found = output_layer.log_prob(hidden.get(), best.get(), rows, got.get(), doubtful.get());
    CHECK(found == truth.found && same(doubtful.get(), truth.doubtful.get(), found), *name, vocab);
    for (int64_t r = 0; r < rows; ++r) {
      CHECK(truth.is_doubtful(r) || same(got.get() + r, truth.log_prob.get() + r * k, 1), *name, vocab);
    }
  }
}

void test_threads(bool bytes) {
  const Screened screen(9, 300, 20, 3);
  Guarded<float> hidden(60 * 20);
  fill(hidden, 1.0f);
  const ScreenLayer output_layer = screen.build(sharpbeam::kernels().name, bytes);
  const Answer truth(output_layer, hidden, 60, 5);
  std::vector<int> equal(4, 0);
  std::vector<std::thread> threads;
  for (int& count : equal) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) count += Answer(output_layer, hidden, 60, 5) == truth;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int count : equal) CHECK(count == 20, sharpbeam::kernels().name, 300);
}

void test_refusals() {
  Screened screen(3, 20, 4, 0);
  const auto refused = [&] {
    try {
      screen.build("scalar", true);
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  CHECK(!refused(), "scalar", 20);
  for (const int32_t bad : {INT32_MIN, -1, 20, INT32_MAX}) {
    const int32_t before = (*screen.token)[0];
    (*screen.token)[0] = bad;
    CHECK(refused(), "scalar", bad);
    (*screen.token)[0] = before;
  }
  for (const int64_t bad : {INT64_MIN, int64_t{-1}, int64_t{21}, INT64_MAX}) {
    screen.view.doubt_k = bad;
    CHECK(refused(), "scalar", bad);
    screen.view.doubt_k = 0;
  }
  screen.start[1] = 0;
  CHECK(refused(), "scalar", 0);
}

}  // namespace

void test_screened() {
  for (int i = 0; i < 60; ++i) {
    const int64_t vocab = draw_size(1, 300);
    test_shape(draw_size(0, 60), draw_size(1, 20), vocab, draw_size(1, 70), draw_size(1, vocab), i % 2 == 0);
  }
  test_threads(true);
  test_threads(false);
  test_refusals();
}
