// The words of requests: every table against the scalar one, memory that is used again, and what is refused.
#include "output/shortlist.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include "allocations.h"
#include "check.h"

namespace {

using sharpbeam::ShortlistRun;

// Requests 0, 1, .. with every `step`-th word from a random one on.
std::vector<std::vector<int32_t>> draw_sets(int64_t requests, int64_t vocab) {
  std::vector<std::vector<int32_t>> sets(static_cast<size_t>(requests));
  for (auto& set : sets) {
    const int64_t step = draw_size(1, 9);
    for (int64_t word = draw_size(0, vocab - 1); word < vocab; word += step) set.push_back(static_cast<int32_t>(word));
  }
  return sets;
}

void admit(ShortlistRun& run, const std::vector<std::vector<int32_t>>& sets) {
  for (size_t i = 0; i < sets.size(); ++i) {
    Guarded<int32_t> words(static_cast<int64_t>(sets[i].size()));
    std::copy(sets[i].begin(), sets[i].end(), words.get());
    run.admit(static_cast<int32_t>(i), words.get(), words.size());
  }
}

void test_shape(int64_t rows, int64_t vocab, int64_t dim, int64_t k) {
  const auto weight = std::make_shared<Guarded<float>>(vocab * dim), bias = std::make_shared<Guarded<float>>(vocab);
  fill(*weight, 1.0f), fill(*bias, 1.0f);
  Guarded<float> hidden(rows * dim);
  fill(hidden, 1.0f);
  const auto first = draw_sets(6, vocab), second = draw_sets(6, vocab);
  Guarded<int32_t> request(rows), every(6);
  for (int64_t r = 0; r < rows; ++r) request[r] = static_cast<int32_t>(draw_size(0, 5));
  for (int64_t i = 0; i < 6; ++i) every[i] = static_cast<int32_t>(i);
  Guarded<float> wanted(rows * k);
  Guarded<int32_t> wanted_token(rows * k);
  for (const char* const* name = sharpbeam::kernel_names(); *name != nullptr; ++name) {
    ShortlistRun run({weight, weight->get()}, {bias, bias->get()}, vocab, dim, sharpbeam::kernels(*name));
    admit(run, first);
    run.evict(every.get(), every.size());
    admit(run, second);  // into the memory of the first
    Guarded<float> log_prob(rows * k), forced(rows);
    Guarded<int32_t> token(rows * k), best(rows);
    run.topk(hidden.get(), request.get(), rows, k, log_prob.get(), token.get());
    if (name == sharpbeam::kernel_names()) {
      std::copy_n(log_prob.get(), rows * k, wanted.get());
      std::copy_n(token.get(), rows * k, wanted_token.get());
    }
    CHECK(same(log_prob.get(), wanted.get(), rows * k), *name, vocab);
    CHECK(same(token.get(), wanted_token.get(), rows * k), *name, vocab);
    const auto warm = [&] { run.topk(hidden.get(), request.get(), rows, k, log_prob.get(), token.get()); };
    CHECK(allocated(warm) == 0, *name, vocab);
    for (int64_t r = 0; r < rows; ++r) best[r] = token[r * k];
    run.log_prob(hidden.get(), request.get(), best.get(), rows, forced.get());
    for (int64_t r = 0; r < rows; ++r) CHECK(same(forced.get() + r, log_prob.get() + r * k, 1), *name, vocab);
  }
}

void test_refusals() {
  const auto data = std::make_shared<std::vector<float>>(20, 1.0f);
  ShortlistRun run({data, data->data()}, {data, data->data()}, 5, 4, sharpbeam::kernels("scalar"));
  const auto refused = [&](auto call) {
    try {
      call();
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  const int32_t words[] = {1, 3}, here[] = {7};
  run.admit(7, words, 2);
  CHECK(refused([&] { run.admit(7, words, 2); }), "scalar", 7);
  for (const int32_t bad : {INT32_MIN, -1, 5, INT32_MAX}) {
    const int32_t wrong[] = {bad};
    CHECK(refused([&] { run.admit(8, wrong, 1); }), "scalar", bad);
    CHECK(refused([&] { run.evict(wrong, 1); }), "scalar", bad);
    float out;
    CHECK(refused([&] { run.log_prob(data->data(), here, wrong, 1, &out); }), "scalar", bad);
  }
  CHECK(refused([&] { run.admit(8, words, 0); }), "scalar", 0);
  run.evict(here, 1);
  CHECK(refused([&] { run.evict(here, 1); }), "scalar", 7);
}

}  // namespace

void test_shortlist() {
  for (int i = 0; i < 40; ++i) {
    const int64_t vocab = draw_size(1, 300);
    test_shape(draw_size(0, 60), vocab, draw_size(1, 70), draw_size(1, vocab));
  }
  test_refusals();
}
