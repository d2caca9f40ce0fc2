// Gemms of every table against the scalar one, bit for bit, on arrays that end at an inaccessible page.
#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "check.h"
#include "kernels/fused.h"
#include "kernels/table.h"
#include "linear/float32_matrix.h"
#include "linear/int16_matrix.h"
#include "linear/int8_matrix.h"
#include "linear/panels.h"
#include "tables.h"

namespace {

using sharpbeam::Kernels;

void check_gemm(const Kernels& table) {
  const Kernels& scalar = sharpbeam::kernels("scalar");
  for (int round = 0; round < 200; ++round) {
    const int64_t rows = draw_size(0, 20), in = draw_size(1, 40), out = draw_size(1, 200), wider = draw_size(0, 3);
    Guarded<float> weight(out * in), bias(out), x(rows * (in + wider)), a(rows * (out + wider)),
        b(rows * (out + wider));
    fill(weight, 1.0f), fill(bias, 1.0f), fill(x, 1.0f), fill(a, 1.0f);
    std::copy(a.get(), a.get() + a.size(), b.get());  // the gaps between rows must stay
    const sharpbeam::Float32Matrix matrix(weight.get(), out, in, in, round % 2 ? bias.get() : nullptr);
    matrix.matmul(scalar, x.get(), in + wider, a.get(), out + wider, rows);
    matrix.matmul(table, x.get(), in + wider, b.get(), out + wider, rows);
    CHECK(same(a.get(), b.get(), a.size()), table.name, rows);
    for (int64_t r = 0; r < rows; ++r) {
      Guarded<float> alone(out);
      matrix.matmul(table, x.get() + r * (in + wider), in, alone.get(), out, 1);
      CHECK(same(alone.get(), a.get() + r * (out + wider), out), table.name, rows);
      float sum = round % 2 ? bias[out - 1] : 0.0f;  // the chain of kernels/table.h
      for (int64_t k = 0; k < in; ++k) sum = sharpbeam::fused(x[r * (in + wider) + k], weight[(out - 1) * in + k], sum);
      CHECK(same(&sum, alone.get() + out - 1, 1), table.name, rows);
    }
  }
}

// Rounded weights are near their own, and give the bits of a gemm of the same numbers as floats.
void check_gemm_bfloat16(const Kernels& table) {
  for (int round = 0; round < 200; ++round) {
    const int64_t rows = draw_size(0, 20), in = draw_size(1, 40), out = draw_size(1, 200);
    Guarded<float> weight(out * in), x(rows * in), a(rows * out), b(rows * out);
    fill(weight, 1.0f), fill(x, 1.0f);
    if (round % 2) salt(weight);
    Guarded<sharpbeam::BFloat16> packed(sharpbeam::packed_size(in, out));
    Guarded<float> floats(packed.size()), widened(packed.size());
    sharpbeam::pack_rows(out, in, [&](int64_t n) { return weight.get() + n * in; }, packed.get());
    sharpbeam::pack_rows(out, in, [&](int64_t n) { return weight.get() + n * in; }, floats.get());
    for (int64_t i = 0; i < packed.size(); ++i) {
      widened[i] = std::bit_cast<float>(static_cast<uint32_t>(packed[i].bits) << 16);
      const float most = std::abs(floats[i]) / 256;  // half of a step
      CHECK(std::isnan(floats[i]) ? std::isnan(widened[i])
                                  : floats[i] == widened[i] || std::abs(widened[i] - floats[i]) <= most + 1e-40f,
            table.name, i);
    }
    table.gemm(widened.get(), nullptr, x.get(), in, a.get(), out, rows, in, out);
    table.gemm_bfloat16(packed.get(), nullptr, x.get(), in, b.get(), out, rows, in, out);
    CHECK(same(a.get(), b.get(), a.size()), table.name, rows);
  }
}

// Quantized matrices with inputs at their limits among the others, as gemms of any shape and row by row.
template <typename Quantized>
void check_quantized_gemm(const Kernels& table, float (*Kernels::*quantize)(const float*, int64_t, Quantized*),
                          int64_t group) {
  using Matrix = std::conditional_t<std::is_same_v<Quantized, int8_t>, sharpbeam::Int8Matrix, sharpbeam::Int16Matrix>;
  const Kernels& scalar = sharpbeam::kernels("scalar");
  for (int round = 0; round < 150; ++round) {
    const int64_t rows = draw_size(1, round % 5 ? 20 : 60), in = draw_size(1, 150), out = draw_size(1, 200);
    const int64_t stride = sharpbeam::round_up(in, group) + group * draw_size(0, 1);
    Guarded<float> weight(out * in), bias(out), x(in), scale(rows), a(rows * out), b(rows * out);
    fill(weight, 1.0f), fill(bias, 1.0f);
    if (round % 3 == 0)
      for (int64_t i = 0; i < weight.size(); ++i) weight[i] = round % 2 ? 1.0f : std::copysign(1.0f, weight[i]);
    Matrix matrix(out, in);
    for (int64_t n = 0; n < out; ++n) matrix.set_row(n, weight.get() + n * in);
    Guarded<Quantized> q(rows * stride), other(in);
    std::fill_n(q.get(), q.size(), Quantized{0});
    for (int64_t r = 0; r < rows; ++r) {
      fill(x, 2.0f);
      if (round % 4 == 0)
        for (int64_t k = 0; k < in; ++k) x[k] = std::copysign(1.0f, x[k]);
      scale[r] = (scalar.*quantize)(x.get(), in, q.get() + r * stride);
      CHECK((table.*quantize)(x.get(), in, other.get()) == scale[r], table.name, in);
      CHECK(std::equal(other.get(), other.get() + in, q.get() + r * stride), table.name, in);
    }
    matrix.matmul(scalar, bias.get(), q.get(), stride, scale.get(), a.get(), out, rows);
    matrix.matmul(table, bias.get(), q.get(), stride, scale.get(), b.get(), out, rows);
    CHECK(same(a.get(), b.get(), a.size()), table.name, rows);
    const int64_t last = rows - 1;
    matrix.matmul(table, bias.get(), q.get() + last * stride, stride, scale.get() + last, b.get(), out, 1);
    CHECK(same(a.get() + last * out, b.get(), out), table.name, rows);
  }
}

void check_int8(const Kernels& table) {
  check_quantized_gemm<int8_t>(table, &Kernels::quantize_int8, sharpbeam::kInt8Group);
  const Kernels& scalar = sharpbeam::kernels("scalar");
  for (int64_t n = 1; n <= 200; ++n) {
    const float scale = n % 7 == 0 ? 0.0f : 0.01f;
    Guarded<double> w(n);
    Guarded<uint8_t> a(n), b(n);
    for (int64_t i = 0; i < n; ++i)
      w[i] = n % 7 == 0 ? 1e-30 : double{scale} / 2 * static_cast<double>(draw_size(-254, 254));
    const double lost = scalar.quantize_weights(w.get(), n, scale, a.get());
    CHECK(table.quantize_weights(w.get(), n, scale, b.get()) == lost, table.name, n);
    CHECK(std::equal(a.get(), a.get() + n, b.get()), table.name, n);
  }
}

void check_int16(const Kernels& table) {
  check_quantized_gemm<int16_t>(table, &Kernels::quantize_int16, sharpbeam::kInt16Group);
}

}  // namespace

TEST(kernels_gemm_of_some_columns) {
  Guarded<float> weight(70 * 9), x(4), a(70), b(70);
  fill(weight, 1.0f), fill(x, 1.0f);
  const sharpbeam::Float32Matrix part(weight.get() + 5, 70, 4, 9, nullptr);  // columns 5 to 8 of 9
  part.matmul(sharpbeam::kernels(), x.get(), 4, a.get(), 70, 1);
  for (int64_t n = 0; n < 70; ++n) {
    b[n] = 0.0f;
    for (int64_t k = 0; k < 4; ++k) b[n] = sharpbeam::fused(x[k], weight[n * 9 + 5 + k], b[n]);
  }
  CHECK(same(a.get(), b.get(), 70), sharpbeam::kernels().name, 70);
}

TEST(kernels_gemm) { for_each_table(check_gemm); }
TEST(kernels_gemm_bfloat16) { for_each_table(check_gemm_bfloat16); }
TEST(kernels_int8) { for_each_table(check_int8); }
TEST(kernels_int16) { for_each_table(check_int16); }
