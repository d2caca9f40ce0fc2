#include <stdexcept>
#include <thread>
#include <vector>

#include "check.h"
#include "output/exact.h"

namespace {

using sharpbeam::ExactLayer;

struct Answer {
  Guarded<float> log_prob;
  Guarded<int32_t> token;

  Answer(const ExactLayer& output_layer, Guarded<float>& hidden, int64_t k)
      : log_prob(hidden.size() / output_layer.dim() * k), token(log_prob.size()) {
    output_layer.topk(hidden.get(), hidden.size() / output_layer.dim(), k, true, log_prob.get(), token.get());
  }
  bool operator==(const Answer& other) const {
    return same(log_prob.get(), other.log_prob.get(), log_prob.size()) &&
           same(token.get(), other.token.get(), token.size());
  }
};

template <typename Call>
bool refused(Call call) {
  try {
    call();
  } catch (const std::invalid_argument&) {
    return true;
  }
  return false;
}

void test_shape(int64_t rows, int64_t dim, int64_t vocab, int64_t k) {
  Guarded<float> weight(vocab * dim), bias(vocab), hidden(rows * dim);
  fill(weight, 1.0f), fill(bias, 1.0f), fill(hidden, 1.0f);
  const ExactLayer scalar(weight.get(), bias.get(), vocab, dim, sharpbeam::kernels("scalar"));
  const Answer truth(scalar, hidden, k);
  for (const char* const* name = sharpbeam::kernel_names(); *name != nullptr; ++name) {
    const ExactLayer output_layer(weight.get(), bias.get(), vocab, dim, sharpbeam::kernels(*name));
    CHECK(Answer(output_layer, hidden, k) == truth, *name, vocab);
    Guarded<int32_t> best(rows);
    Guarded<float> wanted(rows), got(rows);
    for (int64_t r = 0; r < rows; ++r) {
      best[r] = truth.token.get()[r * k];
      wanted[r] = truth.log_prob.get()[r * k];
    }
    output_layer.log_prob(hidden.get(), best.get(), rows, true, got.get());
    CHECK(same(got.get(), wanted.get(), rows), *name, vocab);
  }
}

void test_threads() {
  Guarded<float> weight(500 * 20), bias(500), hidden(60 * 20);
  fill(weight, 1.0f), fill(bias, 1.0f), fill(hidden, 1.0f);
  const ExactLayer output_layer(weight.get(), bias.get(), 500, 20, sharpbeam::kernels());
  const Answer truth(output_layer, hidden, 5);
  std::vector<int> equal(4, 0);
  std::vector<std::thread> threads;
  for (int& count : equal) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) count += Answer(output_layer, hidden, 5) == truth;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int count : equal) CHECK(count == 20, sharpbeam::kernels().name, 500);
}

void test_refusals() {
  Guarded<float> weight(12), bias(4), hidden(3), out(5);
  fill(weight, 1.0f), fill(bias, 1.0f), fill(hidden, 1.0f);
  Guarded<int32_t> token(5);
  const ExactLayer output_layer(weight.get(), bias.get(), 4, 3, sharpbeam::kernels());
  for (const int64_t k : {INT64_MIN, int64_t{-1}, int64_t{0}, int64_t{5}, INT64_MAX}) {
    CHECK(refused([&] { output_layer.topk(hidden.get(), 1, k, true, out.get(), token.get()); }), "any", k);
  }
  for (const int32_t id : {INT32_MIN, -1, 4, INT32_MAX}) {
    token[0] = id;
    CHECK(refused([&] { output_layer.log_prob(hidden.get(), token.get(), 1, true, out.get()); }), "any", id);
  }
  CHECK(refused([&] { ExactLayer(weight.get(), bias.get(), 0, 3, sharpbeam::kernels()); }), "any", 0);
}

}  // namespace

void test_projection() {
  for (int round = 0; round < 40; ++round) {
    const int64_t rows = draw_size(0, 60), dim = draw_size(1, 40), vocab = draw_size(1, 400), k = draw_size(1, vocab);
    test_shape(rows, dim, vocab, k);
  }
  test_shape(50, 2, 30000, 7);  // so many words that fewer rows are taken at a time
  test_shape(8, 1, 1 << 18, 2);
  test_threads();
  test_refusals();
}
