#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.h"
#include "projections/screened.h"

namespace {

using quickbeam::ScreenedProjection;
using quickbeam::ScreenView;

// Random clusters, each with every `step`-th word from a random one on; all arrays end at forbidden pages.
struct Screened {
  Guarded<float> weight, bias, cluster_weight, cluster_bias, center;
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
      : weight(words_of * width),
        bias(words_of),
        cluster_weight(clusters * width),
        cluster_bias(clusters),
        center(clusters * width),
        start(clusters + 1),
        vocab(words_of),
        dim(width) {
    fill(weight, 1.0f), fill(bias, 1.0f), fill(cluster_weight, 1.0f), fill(cluster_bias, 1.0f), fill(center, 1.0f);
    std::vector<int32_t> starts;
    const std::vector<int32_t> all = words(clusters, vocab, starts);
    token = std::make_unique<Guarded<int32_t>>(static_cast<int64_t>(all.size()));
    for (size_t i = 0; i < all.size(); ++i) (*token)[static_cast<int64_t>(i)] = all[i];
    for (size_t i = 0; i < starts.size(); ++i) start[static_cast<int64_t>(i)] = starts[i];
    view = {cluster_weight.get(),
            cluster_bias.get(),
            start.get(),
            token->get(),
            clusters,
            center.get(),
            doubt_k,
            0.5f,
            0.0f};
  }
  ScreenedProjection build(const char* isa) const {
    return ScreenedProjection(weight.get(), bias.get(), vocab, dim, view, quickbeam::kernels(isa));
  }
};

struct Answer {
  Guarded<float> log_prob, shared;
  Guarded<int32_t> token, shared_token;
  Guarded<bool> doubtful;

  Answer(const ScreenedProjection& projection, Guarded<float>& hidden, int64_t rows, int64_t k)
      : log_prob(rows * k), shared(rows * k), token(rows * k), shared_token(rows * k), doubtful(rows) {
    projection.topk(hidden.get(), rows, k, log_prob.get(), token.get(), doubtful.get());
    projection.topk_union(hidden.get(), rows, k, shared.get(), shared_token.get());
  }
  bool operator==(const Answer& other) const {
    bool equal = true;
    for (int64_t r = 0; r < doubtful.size(); ++r) equal &= doubtful.get()[r] == other.doubtful.get()[r];
    return equal && same(log_prob.get(), other.log_prob.get(), log_prob.size()) &&
           same(token.get(), other.token.get(), token.size()) &&
           same(shared.get(), other.shared.get(), shared.size()) &&
           same(shared_token.get(), other.shared_token.get(), shared_token.size());
  }
};

void test_shape(int64_t rows, int64_t clusters, int64_t vocab, int64_t dim, int64_t k) {
  const Screened screen(clusters, vocab, dim, draw_size(0, k));
  Guarded<float> hidden(rows * dim);
  fill(hidden, 1.0f);
  const Answer truth(screen.build("scalar"), hidden, rows, k);
  for (const char* const* name = quickbeam::kernel_names(); *name != nullptr; ++name) {
    const ScreenedProjection projection = screen.build(*name);
    CHECK(Answer(projection, hidden, rows, k) == truth, *name, vocab);
    Guarded<int32_t> best(rows);
    Guarded<float> wanted(rows), got(rows);
    Guarded<bool> doubtful(rows);
    for (int64_t r = 0; r < rows; ++r) {
      best[r] = truth.token.get()[r * k];
      wanted[r] = truth.log_prob.get()[r * k];
    }
    projection.log_prob(hidden.get(), best.get(), rows, got.get(), doubtful.get());
    CHECK(same(got.get(), wanted.get(), rows), *name, vocab);
  }
}

void test_threads() {
  const Screened screen(9, 300, 20, 3);
  Guarded<float> hidden(60 * 20);
  fill(hidden, 1.0f);
  const ScreenedProjection projection = screen.build(quickbeam::kernels().name);
  const Answer truth(projection, hidden, 60, 5);
  std::vector<int> equal(4, 0);
  std::vector<std::thread> threads;
  for (int& count : equal) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) count += Answer(projection, hidden, 60, 5) == truth;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int count : equal) CHECK(count == 20, quickbeam::kernels().name, 300);
}

void test_refusals() {
  Screened screen(3, 20, 4, 0);
  const auto refused = [&] {
    try {
      screen.build("scalar");
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
    test_shape(draw_size(0, 60), draw_size(1, 20), vocab, draw_size(1, 70), draw_size(1, vocab));
  }
  test_threads();
  test_refusals();
}
