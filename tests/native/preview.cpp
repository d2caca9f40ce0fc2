// The proven layer: the exact one's best tokens on every table, in guarded memory, with any preview that is sound.
#include "output/preview.h"

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "check.h"

namespace {

using namespace sharpbeam;

void check_proven(const Kernels& table) {
  for (const int64_t dim : {8, 20, 130, 320}) {
    const int64_t vocab = draw_size(70, 400), rows = draw_size(1, 9), k = draw_size(1, 12), padded = round_up(dim, 8);
    const auto weight = std::make_shared<Guarded<float>>(vocab * dim);
    const auto bias = std::make_shared<Guarded<float>>(vocab);
    Guarded<float> basis(dim * dim), shift(dim), center(dim), hidden(rows * dim);
    fill(*weight, 1.0f), fill(*bias, 1.0f), fill(hidden, 2.0f);
    std::fill_n(basis.get(), dim * dim, 0.0f);
    for (int64_t i = 0; i < dim; ++i) basis[i * dim + i] = 1.0f, shift[i] = 0.0f, center[i] = 0.0f;
    std::vector<double> y(weight->get(), weight->get() + vocab * dim), balance(static_cast<size_t>(dim), 1.0);
    std::vector<int32_t> tokens(static_cast<size_t>(vocab));
    std::iota(tokens.begin(), tokens.end(), 0);
    const bool two = padded > 8;
    const std::vector<int32_t> start{0, static_cast<int32_t>(two ? vocab / 3 : vocab), static_cast<int32_t>(vocab)};
    const std::vector<int32_t> sizes{static_cast<int32_t>(two ? padded - 8 : 8), 8};
    const std::vector<double> trust{1.0, 1.0};
    const LowBitView view{basis.get(),    shift.get(),  center.get(),  y.data(),
                          balance.data(), two ? 2 : 1,  tokens.data(), start.data(),
                          sizes.data(),   trust.data(), 1.0,           1e-12};
    const PreviewLayer layer(Array(weight, weight->get()), Array(bias, bias->get()), vocab, dim, view,
                             {1.0f, 5.0f, 7.0f, 9.0f, 1.0, 1.0}, true, table);
    const OutputMatrix exact(Array(weight, weight->get()), bias->get(), vocab, dim, table);
    Guarded<float> found(rows * k), wanted(k), logits(round_up(vocab, 64) + 64);
    Guarded<int32_t> token(rows * k), best(k);
    ProvenCounts counts;
    layer.rank({hidden.get(), rows}, k, false, found.get(), token.get(), nullptr, counts);
    for (int64_t r = 0; r < rows; ++r) {
      exact.rank_all(hidden.get() + r * dim, false, k, logits.get(), wanted.get(), best.get());
      CHECK(same(wanted.get(), found.get() + r * k, k), table.name, dim);
      CHECK(std::equal(best.get(), best.get() + k, token.get() + r * k), table.name, dim);
    }
    layer.rank({hidden.get(), rows}, k, true, found.get(), token.get(), nullptr, counts);
    CHECK(counts.rows == 2 * rows, table.name, dim);
    Guarded<float> total(rows);
    layer.exact_totals({hidden.get(), rows}, total.get());
    for (int64_t r = 0; r < rows; ++r) {
      CHECK(total[r] == exact.log_total(hidden.get() + r * dim, logits.get()), table.name, dim);
    }
  }
}

TEST(proven_is_exact) {
  for (const char* const* name = kernel_names(); *name != nullptr; ++name) check_proven(kernels(*name));
}

}  // namespace
