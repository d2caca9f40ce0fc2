// Every table against the scalar one, bit for bit, on arrays that end at an inaccessible page.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"
#include "kernels/fused.h"
#include "kernels/table.h"
#include "tables.h"

namespace {

using sharpbeam::Kernels;
using InPlace = void (*)(float*, int64_t);

void check_in_place(const Kernels& table, InPlace Kernels::* kernel, bool salted) {
  const Kernels& scalar = sharpbeam::kernels("scalar");
  for (int64_t n = 1; n <= 100; ++n) {
    Guarded<float> a(n), b(n);
    fill(a, 30.0f);
    if (salted) salt(a);
    std::copy(a.get(), a.get() + n, b.get());
    (scalar.*kernel)(a.get(), n);
    (table.*kernel)(b.get(), n);
    CHECK(same(a.get(), b.get(), n), table.name, n);
  }
}

void check_softmax(const Kernels& table, bool salted) {
  const Kernels& scalar = sharpbeam::kernels("scalar");
  for (int64_t n = 1; n <= 100; ++n) {
    const int64_t rows = draw_size(1, 9);
    Guarded<float> a(rows * n), b(rows * n);
    fill(a, 30.0f);
    if (salted) salt(a);
    std::copy(a.get(), a.get() + rows * n, b.get());
    for (int64_t r = 0; r < rows; ++r) scalar.softmax(a.get() + r * n, 1, n);
    table.softmax(b.get(), rows, n);
    CHECK(same(a.get(), b.get(), rows * n), table.name, n);
  }
}

void check_cells_and_attention(const Kernels& table) {
  const Kernels& scalar = sharpbeam::kernels("scalar");
  for (int64_t dim = 1; dim <= 100; ++dim) {
    Guarded<float> input(3 * dim), hidden(3 * dim), a(dim), b(dim);
    fill(input, 3.0f), fill(hidden, 3.0f), fill(a, 1.0f);
    scalar.gru(input.get(), hidden.get(), a.get(), b.get(), dim);
    table.gru(input.get(), hidden.get(), a.get(), a.get(), dim);  // in place
    CHECK(same(a.get(), b.get(), dim), table.name, dim);

    Guarded<float> x(4 * dim), h(4 * dim), c(dim), d(dim), y(dim), z(dim);
    fill(x, 3.0f), fill(h, 3.0f), fill(c, 1.0f);
    scalar.lstm(x.get(), h.get(), c.get(), d.get(), y.get(), dim);
    table.lstm(x.get(), h.get(), c.get(), c.get(), z.get(), dim);  // in place
    CHECK(same(c.get(), d.get(), dim) && same(y.get(), z.get(), dim), table.name, dim);

    const int64_t positions = draw_size(1, 20);
    Guarded<float> query(dim), keys(positions * dim), weight(dim), s(positions), t(positions);
    fill(query, 2.0f), fill(keys, 2.0f), fill(weight, 1.0f);
    Guarded<double> q(dim), k(positions * dim), e(dim), f(positions * dim), w(dim);
    std::copy_n(weight.get(), dim, w.get());
    scalar.mlp_keys(query.get(), q.get(), dim), scalar.mlp_keys(keys.get(), k.get(), positions * dim);
    table.mlp_keys(query.get(), e.get(), dim), table.mlp_keys(keys.get(), f.get(), positions * dim);
    CHECK(std::equal(q.get(), q.get() + dim, e.get()), table.name, dim);
    CHECK(std::equal(k.get(), k.get() + positions * dim, f.get()), table.name, dim);
    scalar.mlp_scores(q.get(), k.get(), w.get(), s.get(), positions, dim);
    table.mlp_scores(q.get(), k.get(), w.get(), t.get(), positions, dim);
    CHECK(same(s.get(), t.get(), positions), table.name, dim);
    scalar.dot_scores(query.get(), keys.get(), s.get(), positions, dim);
    table.dot_scores(query.get(), keys.get(), t.get(), positions, dim);
    CHECK(same(s.get(), t.get(), positions), table.name, dim);
  }
}

void check_log_sum_exp(const Kernels& table) {
  for (int64_t n = 1; n <= 200; ++n) {
    Guarded<float> x(n);
    fill(x, 10.0f);
    if (n % 2 == 0) salt(x);
    const float a = sharpbeam::kernels("scalar").log_sum_exp(x.get(), n), b = table.log_sum_exp(x.get(), n);
    CHECK(same(&a, &b, 1), table.name, n);
  }
}

// Dot products with selected rows, one chain of fma each, and the int8 quantization of a row.
void check_selected_rows_and_quantization(const Kernels& table) {
  const Kernels& scalar = sharpbeam::kernels("scalar");
  for (int64_t dim = 1; dim <= 40; ++dim) {
    const int64_t vocab = draw_size(1, 30), count = draw_size(0, 40), rows = draw_size(1, 9), stride = count + 3;
    Guarded<float> weight(vocab * dim), bias(vocab), x(rows * dim), wanted(count), got((rows - 1) * stride + count);
    Guarded<int32_t> token(count);
    fill(weight, 1.0f), fill(bias, 1.0f), fill(x, 1.0f);
    for (int64_t i = 0; i < count; ++i) {
      token[i] = static_cast<int32_t>(draw_size(0, vocab - 1));
    }
    table.gather_dot(weight.get(), bias.get(), x.get(), rows, token.get(), count, dim, got.get(), stride);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < count; ++i) {
        wanted[i] = bias[token[i]];
        for (int64_t k = 0; k < dim; ++k)
          wanted[i] = sharpbeam::fused(x[r * dim + k], weight[token[i] * dim + k], wanted[i]);
      }
      CHECK(same(got.get() + r * stride, wanted.get(), count), table.name, dim);
    }

    Guarded<int8_t> a(dim), b(dim);
    const float size = scalar.quantize_int8(x.get(), dim, a.get());
    CHECK(table.quantize_int8(x.get(), dim, b.get()) == size, table.name, dim);
    CHECK(std::equal(a.get(), a.get() + dim, b.get()), table.name, dim);
    for (int64_t k = 0; k < dim; ++k) CHECK(std::fabs(b[k] * size - x[k]) <= 0.51f * size, table.name, dim);
  }
}

void check_top_k(const Kernels& table) {
  for (int64_t n = 1; n <= 300; ++n) {
    Guarded<float> x(n), order(n);
    fill(x, 5.0f);
    for (int64_t i = 0; i < n; ++i) x[i] = std::floor(x[i]);  // many are equal
    salt(x);
    const int64_t k = n % 4 == 0 ? 1 : draw_size(1, n);
    Guarded<float> a(k);
    Guarded<int32_t> i(k), j(n);
    table.top_k(x.get(), n, k, a.get(), i.get());
    for (int64_t s = 0; s < n; ++s) {
      j[s] = static_cast<int32_t>(s);
      order[s] = std::isnan(x[s]) ? -kInfinity : x[s];
    }
    std::stable_sort(j.get(), j.get() + n, [&](int32_t s, int32_t t) { return order[s] > order[t]; });
    CHECK(same(i.get(), j.get(), k), table.name, n);
    for (int64_t s = 0; s < k; ++s) CHECK(a[s] == order[j[s]], table.name, n);
  }
}

void check_find_at_least(const Kernels& table) {
  for (int64_t n = 1; n <= 200; ++n) {
    Guarded<float> x(n), a(n), b(n);
    fill(x, 5.0f), fill(a, 1.0f), fill(b, 1.0f);
    salt(x);
    const float by_a = draw(), by_b = draw(), bar = 5.0f * draw();
    Guarded<int32_t> found(n + sharpbeam::kLanes), wanted(n);
    int64_t count = 0;
    for (int64_t i = 0; i < n; ++i)
      if (!(sharpbeam::fused(by_b, b[i], sharpbeam::fused(by_a, a[i], x[i])) < bar))
        wanted[count++] = static_cast<int32_t>(i);
    CHECK(table.find_at_least(x.get(), a.get(), b.get(), by_a, by_b, bar, n, found.get()) == count, table.name, n);
    CHECK(same(found.get(), wanted.get(), count), table.name, n);
  }
}

void check_panels(const Kernels& table) {
  constexpr int64_t kPanels = 7, kPanel = sharpbeam::kPanel;
  Guarded<float> x(kPanels * kPanel), a(x.size()), b(x.size());
  fill(x, 5.0f), fill(a, 1.0f), fill(b, 1.0f);
  Guarded<int32_t> panel(3), found(3 * kPanel + sharpbeam::kLanes);
  panel[0] = 1, panel[1] = 2, panel[2] = 6;
  const float sum = table.sum_exp_in_panels(x.get(), 6.0f, panel.get(), 3);
  CHECK(sum == sharpbeam::kernels("scalar").sum_exp_in_panels(x.get(), 6.0f, panel.get(), 3), table.name, 3);
  double wanted_sum = 0.0;
  for (const int64_t p : {1, 2, 6})
    for (int64_t i = p * kPanel; i < (p + 1) * kPanel; ++i) wanted_sum += std::exp(static_cast<double>(x[i]) - 6.0);
  CHECK(std::fabs(sum - wanted_sum) < 1e-5 * wanted_sum, table.name, 3);
  Guarded<float> top(kPanels);
  table.panel_maxima(x.get(), kPanels, top.get());
  for (int64_t p = 0; p < kPanels; ++p)
    CHECK(top[p] == *std::max_element(x.get() + p * kPanel, x.get() + (p + 1) * kPanel), table.name, p);
  const int64_t some = draw_size(1, x.size());
  const float most = *std::max_element(x.get(), x.get() + some);
  CHECK(table.log_sum_exp_below(x.get(), most, some) == sharpbeam::kernels("scalar").log_sum_exp(x.get(), some),
        table.name, some);
  x[0] = kNan, x[kPanel - 1] = 99.0f;
  std::fill_n(x.get() + kPanel, kPanel, -kInfinity);
  table.panel_maxima(x.get(), kPanels, top.get());
  CHECK(top[0] == 99.0f && top[1] == -kInfinity, table.name, 0);
  salt(x);
  const float by_a = draw(), by_b = draw(), bar = 5.0f * draw();
  std::vector<int32_t> wanted;
  for (const int64_t p : {1, 2, 6})
    for (int64_t i = p * kPanel; i < (p + 1) * kPanel; ++i)
      if (!(sharpbeam::fused(by_b, b[i], sharpbeam::fused(by_a, a[i], x[i])) < bar))
        wanted.push_back(static_cast<int32_t>(i));
  const int64_t count = table.find_in_panels(x.get(), a.get(), b.get(), by_a, by_b, bar, panel.get(), 3, found.get());
  CHECK(count == static_cast<int64_t>(wanted.size()), table.name, count);
  CHECK(std::equal(wanted.begin(), wanted.end(), found.get()), table.name, count);
}

void check_transformer(const Kernels& table) {
  const Kernels& scalar = sharpbeam::kernels("scalar");
  for (int64_t dim = 1; dim <= 140; ++dim) {
    const int64_t heads = draw_size(1, 10), positions = draw_size(1, 20), width = heads * dim, offset = draw_size(0, 3);
    Guarded<float> query(width), keys(positions * (offset + width)), s(heads * positions), t(heads * positions);
    Guarded<float> a(width), b(width);
    std::vector<const float*> position;
    fill(query, 1.0f), fill(keys, 1.0f);
    for (int64_t p = 0; p < positions; ++p) position.push_back(keys.get() + p * (offset + width));
    scalar.multihead_scores(query.get(), position.data(), offset, s.get(), positions, positions, heads, dim);
    table.multihead_scores(query.get(), position.data(), offset, t.get(), positions, positions, heads, dim);
    CHECK(same(s.get(), t.get(), s.size()), table.name, dim);
    scalar.multihead_context(s.get(), positions, position.data(), offset, a.get(), positions, heads, dim);
    table.multihead_context(s.get(), positions, position.data(), offset, b.get(), positions, heads, dim);
    CHECK(same(a.get(), b.get(), width), table.name, dim);

    Guarded<float> x(dim), y(dim), added(dim), weight(dim), bias(dim), m(dim), n(dim);
    fill(x, 3.0f), fill(added, 3.0f), fill(weight, 1.0f), fill(bias, 1.0f);
    std::copy_n(x.get(), dim, y.get());
    scalar.add_norm(x.get(), dim % 2 ? added.get() : nullptr, weight.get(), bias.get(), 1e-5f, m.get(), dim);
    table.add_norm(y.get(), dim % 2 ? added.get() : nullptr, weight.get(), bias.get(), 1e-5f, n.get(), dim);
    CHECK(same(x.get(), y.get(), dim) && same(m.get(), n.get(), dim), table.name, dim);
    scalar.add_rms_norm(x.get(), dim % 2 ? added.get() : nullptr, weight.get(), 1e-6f, m.get(), dim);
    table.add_rms_norm(y.get(), dim % 2 ? added.get() : nullptr, weight.get(), 1e-6f, n.get(), dim);
    CHECK(same(x.get(), y.get(), dim) && same(m.get(), n.get(), dim), table.name, dim);
    for (const auto kernel : {&Kernels::add, &Kernels::mul}) {
      (scalar.*kernel)(x.get(), added.get(), dim);
      (table.*kernel)(y.get(), added.get(), dim);
      CHECK(same(x.get(), y.get(), dim), table.name, dim);
    }
    salt(x);
    std::copy_n(x.get(), dim, y.get());
    scalar.swish(x.get(), 1.7f, dim);
    table.swish(y.get(), 1.7f, dim);
    CHECK(same(x.get(), y.get(), dim), table.name, dim);

    Guarded<float> input(2 * dim), c(dim), d(dim);
    fill(input, 3.0f), fill(c, 1.0f);
    scalar.ssru(input.get(), c.get(), m.get(), a.get(), dim);
    table.ssru(input.get(), c.get(), c.get(), d.get(), dim);  // in place
    CHECK(same(m.get(), c.get(), dim) && same(a.get(), d.get(), dim), table.name, dim);
  }
}

TEST(kernels_names) {
  CHECK(sharpbeam::kernel_names()[0] == std::string("scalar"), "scalar", 0);
  bool thrown = false;
  try {
    sharpbeam::kernels("none");
  } catch (const std::invalid_argument& error) {
    thrown = std::string(error.what()).find("isa is \"none\"; this machine can run: scalar") == 0;
  }
  CHECK(thrown, "none", 0);
}

TEST(kernels_activations) {
  for_each_table([](const Kernels& table) {
    check_in_place(table, &Kernels::tanh, true);
    check_in_place(table, &Kernels::relu, true);
    check_in_place(table, &Kernels::gelu, true);
    check_in_place(table, &Kernels::gelu_tanh, true);
  });
}

TEST(kernels_softmax) {
  for_each_table([](const Kernels& table) {
    check_softmax(table, false);
    check_softmax(table, true);
    check_log_sum_exp(table);
  });
}

TEST(kernels_cells_and_attention) { for_each_table(check_cells_and_attention); }
TEST(kernels_top_k) { for_each_table(check_top_k); }
TEST(kernels_selected_rows_and_quantization) { for_each_table(check_selected_rows_and_quantization); }
TEST(kernels_find_at_least) { for_each_table(check_find_at_least); }
TEST(kernels_panels) { for_each_table(check_panels); }
TEST(kernels_transformer) { for_each_table(check_transformer); }

}  // namespace
