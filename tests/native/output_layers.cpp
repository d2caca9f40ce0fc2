// Output layers: every table against the scalar one, runs, layers made of other layers, and what is refused.
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allocations.h"
#include "check.h"
#include "output/by_language.h"
#include "output/exact.h"
#include "output/scan.h"
#include "output/suppressed.h"

namespace {

using namespace sharpbeam;

struct Weights {
  Weights(int64_t vocab_size, int64_t width)
      : vocab(vocab_size),
        dim(width),
        weight(std::make_shared<Guarded<float>>(vocab * dim)),
        bias(std::make_shared<Guarded<float>>(vocab)) {
    fill(*weight, 1.0f);
    fill(*bias, 1.0f);
  }
  std::unique_ptr<RowLayer> exact(const char* isa, bool deferred = false) const {
    return std::make_unique<ExactLayer>(Array(weight, weight->get()), Array(bias, bias->get()), vocab, dim,
                                        kernels(isa), deferred);
  }
  std::unique_ptr<RowLayer> scan(const char* isa) const {
    return std::make_unique<ScanLayer>(Array(weight, weight->get()), bias->get(), vocab, dim, kernels(isa), 1.0f);
  }

  int64_t vocab, dim;
  std::shared_ptr<Guarded<float>> weight, bias;
};

struct Answer {
  Answer(const RowLayer& layer, Guarded<float>& hidden, int64_t k)
      : log_prob(hidden.size() / layer.dim() * k), token(log_prob.size()) {
    layer.topk({hidden.get(), hidden.size() / layer.dim()}, k, log_prob.get(), token.get());
  }
  bool operator==(const Answer& other) const {
    return same(log_prob.get(), other.log_prob.get(), log_prob.size()) &&
           same(token.get(), other.token.get(), token.size());
  }

  Guarded<float> log_prob;
  Guarded<int32_t> token;
};

void test_layer(const RowLayer& layer, Guarded<float>& hidden, int64_t k, const Answer& truth, const char* isa) {
  const int64_t rows = hidden.size() / layer.dim(), vocab = layer.vocab();
  CHECK(Answer(layer, hidden, k) == truth, isa, vocab);
  Guarded<int32_t> best(rows), token(rows * k), request(rows);
  Guarded<float> wanted(rows), got(rows), log_prob(rows * k);
  for (int64_t r = 0; r < rows; ++r) {
    best[r] = truth.token.get()[r * k];
    wanted[r] = truth.log_prob.get()[r * k];
    request[r] = 0;
  }
  layer.log_prob({hidden.get(), rows}, best.get(), got.get());
  CHECK(same(got.get(), wanted.get(), rows), isa, vocab);
  const std::unique_ptr<LayerRun> run = layer.open();
  run->admit({0, {}, "", ""});
  const LayerRows asked{hidden.get(), rows, request.get()};
  const int64_t made = allocated([&] { run->topk(asked, k, log_prob.get(), token.get()); });
  CHECK(made == 0, isa, vocab);
  CHECK(same(log_prob.get(), truth.log_prob.get(), rows * k), isa, vocab);
  CHECK(same(token.get(), truth.token.get(), rows * k), isa, vocab);
}

void test_shape(int64_t rows, int64_t dim, int64_t vocab, int64_t k) {
  const Weights weights(vocab, dim);
  Guarded<float> hidden(rows * dim);
  fill(hidden, 1.0f);
  const Answer exact(*weights.exact("scalar"), hidden, k), scan(*weights.scan("scalar"), hidden, k);
  for (const char* const* name = kernel_names(); *name != nullptr; ++name) {
    test_layer(*weights.exact(*name), hidden, k, exact, *name);
    test_layer(*weights.exact(*name, true), hidden, k, exact, *name);
    test_layer(*weights.scan(*name), hidden, k, scan, *name);
    const std::unique_ptr<RowLayer> one = weights.exact(*name), other = weights.scan(*name);
    const Answer logits(*one->unnormalized(), hidden, k), same_logits(*other->unnormalized(), hidden, k);
    CHECK(logits == same_logits, *name, vocab);
  }
}

// Also threads that are the first to use a layer whose packing was deferred.
void test_threads() {
  const Weights weights(500, 20);
  Guarded<float> hidden(60 * 20);
  fill(hidden, 1.0f);
  const std::unique_ptr<RowLayer> layer = weights.exact(kernels().name, true);
  const Answer truth(*weights.exact("scalar"), hidden, 5);
  std::vector<int> equal(4, 0);
  std::vector<std::thread> threads;
  for (int& count : equal) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) count += Answer(*layer, hidden, 5) == truth;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int count : equal) CHECK(count == 20, kernels().name, 500);
}

void test_refusals() {
  const Weights weights(4, 3);
  Guarded<float> hidden(3), out(5);
  fill(hidden, 1.0f);
  Guarded<int32_t> token(5);
  for (const bool scan : {false, true}) {
    const std::unique_ptr<RowLayer> layer = scan ? weights.scan("scalar") : weights.exact("scalar");
    for (const int64_t k : {INT64_MIN, int64_t{-1}, int64_t{0}, int64_t{5}, INT64_MAX}) {
      CHECK(refused([&] { layer->topk({hidden.get(), 1}, k, out.get(), token.get()); }), "scalar", k);
    }
    for (const int32_t id : {INT32_MIN, -1, 4, INT32_MAX}) {
      token[0] = id;
      CHECK(refused([&] { layer->log_prob({hidden.get(), 1}, token.get(), out.get()); }), "scalar", id);
      CHECK(refused([&] { SuppressedLayer(*layer, token.get(), 1); }), "scalar", id);
    }
  }
  const Array array(weights.weight, weights.weight->get());
  CHECK(refused([&] { ExactLayer(array, array, 0, 3, kernels(), false); }), "any", 0);
}

// Against the layer itself, with one more candidate for each suppressed token.
void test_suppressed(const std::vector<int32_t>& suppressed, int64_t k) {
  constexpr int64_t kVocab = 12, kDim = 5, kRows = 7;
  const Weights weights(kVocab, kDim);
  Guarded<float> hidden(kRows * kDim);
  fill(hidden, 1.0f);
  const std::unique_ptr<RowLayer> layer = weights.exact(kernels().name);
  const Answer all(*layer, hidden, kVocab);
  const SuppressedLayer without(*layer, suppressed.data(), static_cast<int64_t>(suppressed.size()));
  const std::unique_ptr<LayerRun> run = without.open();
  Guarded<float> log_prob(kRows * k);
  Guarded<int32_t> token(kRows * k), request(kRows);
  const auto is_suppressed = [&](int32_t id) {
    return std::find(suppressed.begin(), suppressed.end(), id) != suppressed.end();
  };
  for (int64_t call = 0; call < 3; ++call) {
    const int64_t rows = call == 1 ? 2 : kRows;  // fewer rows need no more memory
    const LayerRows asked{hidden.get(), rows, request.get()};
    const int64_t made = allocated([&] { run->topk(asked, k, log_prob.get(), token.get()); });
    CHECK(made == 0 || call == 0, "any", call);
    for (int64_t row = 0; row < rows; ++row) {
      int64_t found = 0;
      for (int64_t j = 0; j < kVocab && found < k; ++j) {
        if (is_suppressed(all.token.get()[row * kVocab + j])) continue;
        CHECK(token[row * k + found] == all.token.get()[row * kVocab + j], "any", k);
        CHECK(same(log_prob.get() + row * k + found, all.log_prob.get() + row * kVocab + j, 1), "any", k);
        ++found;
      }
      for (; found < k; ++found) {
        CHECK(is_suppressed(token[row * k + found]), "any", k);
        CHECK(log_prob[row * k + found] == -std::numeric_limits<float>::infinity(), "any", k);
      }
    }
  }
}

// Rows of several scopes in one batch, in any order, against the layer of each scope alone.
void test_by_language(LayerPer per, std::vector<std::string> scopes) {
  constexpr int64_t kVocab = 60, kDim = 9, kRows = 30, kTop = 4;
  std::vector<std::unique_ptr<RowLayer>> layers;
  std::vector<const OutputLayer*> plain;
  for (size_t s = 0; s < scopes.size(); ++s) {
    layers.push_back(Weights(kVocab, kDim).exact(kernels().name));
    plain.push_back(layers.back().get());
  }
  const LayerByLanguage layer(per, scopes, plain);
  const std::unique_ptr<LayerRun> run = layer.open();
  for (size_t s = 0; s < scopes.size(); ++s) {
    const size_t dash = scopes[s].find('-');
    const std::string source = per == LayerPer::target ? "xx" : scopes[s].substr(0, dash);
    const std::string target = per == LayerPer::target ? scopes[s] : scopes[s].substr(dash + 1);
    run->admit({static_cast<int32_t>(s), {}, source, target});
  }
  Guarded<float> hidden(kRows * kDim), log_prob(kRows * kTop), forced(kRows);
  Guarded<int32_t> request(kRows), token(kRows * kTop), best(kRows);
  fill(hidden, 1.0f);
  for (int64_t call = 0; call < 4; ++call) {
    for (int64_t r = 0; r < kRows; ++r) {  // the last call has rows of one scope alone
      request[r] = call == 3 ? 0 : static_cast<int32_t>(draw_size(0, static_cast<int64_t>(scopes.size()) - 1));
    }
    const LayerRows asked{hidden.get(), kRows, request.get()};
    const int64_t made = allocated([&] { run->topk(asked, kTop, log_prob.get(), token.get()); });
    CHECK(made == 0 || call == 0, "any", call);
    for (int64_t r = 0; r < kRows; ++r) best[r] = token[r * kTop];
    run->log_prob(asked, best.get(), forced.get());
    for (int64_t r = 0; r < kRows; ++r) {
      float alone[kTop];
      int32_t names[kTop];
      layers[static_cast<size_t>(request[r])]->topk({hidden.get() + r * kDim, 1}, kTop, alone, names);
      CHECK(same(alone, log_prob.get() + r * kTop, kTop) && same(names, token.get() + r * kTop, kTop), "any", r);
      CHECK(same(alone, forced.get() + r, 1), "any", r);
    }
  }
  const int32_t first[] = {0, 0};
  CHECK(refused([&] { run->admit({0, {}, "xx", "yy"}); }), "any", 0);
  CHECK(refused([&] { run->admit({9, {}, "xx", "unknown"}); }), "any", 9);
  run->evict(first, 2);
  CHECK(refused([&] { run->evict(first, 1); }), "any", 0);
  request[3] = 0;
  CHECK(refused([&] { run->topk({hidden.get(), kRows, request.get()}, kTop, log_prob.get(), token.get()); }), "any", 0);
  CHECK(refused([&] { LayerByLanguage(per, {}, {}); }), "any", 0);
  const std::unique_ptr<RowLayer> narrow = Weights(kVocab, kDim - 1).exact("scalar");
  CHECK(refused([&] { LayerByLanguage(per, {"aa", "bb"}, {plain[0], narrow.get()}); }), "any", 0);
}

void test_scopes() {
  const std::unique_ptr<RowLayer> layer = Weights(3, 2).exact("scalar");
  const LayerByLanguage layers(LayerPer::direction, {"aa-bb", "bb-aa", "cc-aa"},
                               {layer.get(), layer.get(), layer.get()});
  CHECK(layers.scope_of({0, {}, "cc", "aa"}) == 2, "any", 2);
  CHECK(layers.scope_of({0, {}, "", "bb"}) == 0, "any", 0);  // the only one into bb
  CHECK(refused([&] { layers.scope_of({0, {}, "", "aa"}); }), "any", 0);
  CHECK(refused([&] { layers.scope_of({0, {}, "", ""}); }), "any", 0);
}

}  // namespace

TEST(output_layers) {
  for (int round = 0; round < 40; ++round) {
    const int64_t vocab = draw_size(1, 400);
    test_shape(draw_size(0, 60), draw_size(1, 40), vocab, draw_size(1, vocab));
  }
  test_shape(50, 2, 30000, 7);  // so many tokens that fewer rows are taken at a time
  test_shape(8, 1, 1 << 18, 2);
  test_threads();
  test_refusals();
  test_suppressed({4, 7, 4, 0}, 4);
  test_suppressed({3}, 12);
  test_suppressed({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 3);
  test_by_language(LayerPer::target, {"aa", "bb", "cc"});
  test_by_language(LayerPer::direction, {"aa-bb", "bb-aa", "cc-aa"});
  test_scopes();
}
