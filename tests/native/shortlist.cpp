// Token sets of requests: every table against the scalar one, full sets against the exact layer, memory that is used
// again, and what is refused.
#include "output/shortlist.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "allocations.h"
#include "check.h"
#include "output/exact.h"

namespace {

using namespace sharpbeam;

constexpr int64_t kSources = 8;

// Lists of every `step`-th token from a random one on, for kSources source tokens; or all tokens for each.
struct Lists {
  Lists(int64_t vocab, bool full) : start(kSources + 1), always(1) {
    std::vector<int32_t> all;
    start[0] = 0;
    for (int64_t s = 0; s < kSources; ++s) {
      const int64_t step = full ? 1 : draw_size(1, 9);
      for (int64_t id = full ? 0 : draw_size(0, vocab); id < vocab; id += step) all.push_back(static_cast<int32_t>(id));
      start[s + 1] = static_cast<int32_t>(all.size());
    }
    token = std::make_unique<Guarded<int32_t>>(static_cast<int64_t>(all.size()));
    std::copy(all.begin(), all.end(), token->get());
    always[0] = static_cast<int32_t>(draw_size(0, vocab - 1));
  }
  ShortlistView view() const { return {always.get(), 1, start.get(), token->get(), kSources}; }

  Guarded<int32_t> start, always;
  std::unique_ptr<Guarded<int32_t>> token;
};

struct Case {
  Case(int64_t vocab_size, int64_t width, bool full)
      : vocab(vocab_size),
        dim(width),
        lists(vocab, full),
        weight(std::make_shared<Guarded<float>>(vocab * dim)),
        bias(std::make_shared<Guarded<float>>(vocab)) {
    for (Guarded<float>* array : {weight.get(), bias.get()}) fill(*array, 1.0f);
  }
  std::unique_ptr<OutputLayer> build(const char* isa) const {
    const Array w(weight, weight->get()), b(bias, bias->get());
    return std::make_unique<ShortlistLayer>(w, b, vocab, dim, Shortlist(lists.view(), vocab), kernels(isa));
  }

  int64_t vocab, dim;
  Lists lists;
  std::shared_ptr<Guarded<float>> weight, bias;
};

void admit(LayerRun& run, int64_t requests) {
  for (int32_t index = 0; index < requests; ++index) {
    Guarded<int32_t> source(draw_size(0, 5));
    for (int64_t i = 0; i < source.size(); ++i) source[i] = static_cast<int32_t>((index + i) % kSources);
    run.admit({index, {source.get(), static_cast<size_t>(source.size())}, "", ""});
  }
}

void test_shape(int64_t rows, int64_t vocab, int64_t dim, int64_t k, bool full) {
  const Case one(vocab, dim, full);
  Guarded<float> hidden(rows * dim), wanted(rows * k);
  Guarded<int32_t> request(rows), every(6), wanted_token(rows * k);
  fill(hidden, 1.0f);
  for (int64_t r = 0; r < rows; ++r) request[r] = static_cast<int32_t>(draw_size(0, 5));
  for (int64_t i = 0; i < 6; ++i) every[i] = static_cast<int32_t>(i);
  const LayerRows asked{hidden.get(), rows, request.get()};
  if (full) {
    const ExactLayer exact(Array(one.weight, one.weight->get()), Array(one.bias, one.bias->get()), vocab, dim,
                           kernels("scalar"), false);
    exact.topk(asked, k, wanted.get(), wanted_token.get());
  }
  for (const char* const* name = kernel_names(); *name != nullptr; ++name) {
    const std::unique_ptr<OutputLayer> layer = one.build(*name);
    const std::unique_ptr<LayerRun> run = layer->open();
    const bool first = name == kernel_names();
    if (!full && !first) admit(*run, 6), run->evict(every.get(), 6);  // the next ones go into their memory
    for (int32_t i = 0; i < 6; ++i) {
      const int32_t source[] = {static_cast<int32_t>(i % kSources), static_cast<int32_t>((3 * i + 1) % kSources)};
      run->admit({i, source, "", ""});
    }
    Guarded<float> log_prob(rows * k), forced(rows);
    Guarded<int32_t> token(rows * k), best(rows);
    run->topk(asked, k, log_prob.get(), token.get());
    if (first && !full) {
      std::copy_n(log_prob.get(), rows * k, wanted.get());
      std::copy_n(token.get(), rows * k, wanted_token.get());
    }
    CHECK(same(log_prob.get(), wanted.get(), rows * k), *name, vocab);
    CHECK(same(token.get(), wanted_token.get(), rows * k), *name, vocab);
    CHECK(allocated([&] { run->topk(asked, k, log_prob.get(), token.get()); }) == 0, *name, vocab);
    for (int64_t r = 0; r < rows; ++r) best[r] = token[r * k];
    run->log_prob(asked, best.get(), forced.get());
    for (int64_t r = 0; r < rows; ++r) CHECK(same(forced.get() + r, log_prob.get() + r * k, 1), *name, vocab);
  }
}

void test_refusals() {
  const Case one(5, 4, true);
  const std::unique_ptr<OutputLayer> layer = one.build("scalar");
  const std::unique_ptr<LayerRun> run = layer->open();
  const int32_t source[] = {1, 3}, here[] = {7};
  run->admit({7, source, "", ""});
  CHECK(refused([&] { run->admit({7, source, "", ""}); }), "scalar", 7);
  float out[5];
  int32_t token[5];
  const LayerRows asked{one.weight->get(), 1, here};
  for (const int32_t bad : {INT32_MIN, -1, static_cast<int32_t>(kSources), INT32_MAX}) {
    const int32_t wrong[] = {bad};
    CHECK(refused([&] { run->admit({8, wrong, "", ""}); }), "scalar", bad);
    CHECK(refused([&] { run->evict(wrong, 1); }), "scalar", bad);
    CHECK(refused([&] { run->log_prob(asked, wrong, out); }), "scalar", bad);
    CHECK(refused([&] { run->topk({one.weight->get(), 1, wrong}, 1, out, token); }), "scalar", bad);
  }
  for (const int64_t k : {INT64_MIN, int64_t{-1}, int64_t{0}, int64_t{6}, INT64_MAX}) {
    CHECK(refused([&] { run->topk(asked, k, out, token); }), "scalar", k);
  }
  run->evict(here, 1);
  CHECK(refused([&] { run->evict(here, 1); }), "scalar", 7);
}

void test_hostile_lists() {
  Lists lists(5, true);
  const auto bad = [&] { return refused([&] { Shortlist(lists.view(), 5); }); };
  CHECK(!bad(), "any", 5);
  for (const int32_t id : {INT32_MIN, -1, 5, INT32_MAX}) {
    lists.always[0] = id;
    CHECK(bad(), "any", id);
    lists.always[0] = 0;
    const int32_t before = (*lists.token)[3];
    (*lists.token)[3] = id;
    CHECK(bad(), "any", id);
    (*lists.token)[3] = before;
  }
  for (const int32_t place : {INT32_MIN, -1, 11, INT32_MAX}) {
    const int32_t before = lists.start[1];
    lists.start[1] = place;
    CHECK(bad(), "any", place);
    lists.start[1] = before;
  }
  ShortlistView none = lists.view();
  none.always_count = 0;
  CHECK(refused([&] { Shortlist(none, 5); }), "any", 0);
}

}  // namespace

TEST(shortlist) {
  for (int i = 0; i < 30; ++i) {
    const int64_t vocab = draw_size(1, 300);
    test_shape(draw_size(0, 60), vocab, draw_size(1, 70), draw_size(1, vocab), i % 5 == 0);
  }
  test_refusals();
  test_hostile_lists();
}
