// The preview by 4-bit codes: every table of kernels gives the bits of plain sums, in memory that ends at a guarded
// page.
#include <algorithm>
#include <cmath>
#include <vector>

#include "check.h"
#include "kernels/fused.h"
#include "kernels/table.h"

namespace {

using namespace sharpbeam;

// Code c of token n, as body/code_sums_body.h lays them out.
int code_of(const Kernels& table, const uint8_t* codes, int64_t groups, int64_t n, int64_t c) {
  const uint8_t* group = codes + (n / kPanel * groups + c / kCodeGroup) * 4 * kPanel;
  const int64_t i = n % kPanel, j = c % kCodeGroup;
  if (table.codes_by_token) {
    const uint8_t both = group[i / 16 * kPanel + 4 * (i % 16) + j % 4];
    return j < 4 ? both & 15 : both >> 4;
  }
  const uint8_t both = group[j / 2 * kPanel + (i < 32 ? 2 * i : 2 * (i - 32) + 1)];
  return j % 2 == 0 ? both & 15 : both >> 4;
}

void check_preview_codes(const Kernels& table, int64_t groups, int64_t most) {
  const int64_t panels = draw_size(1, 11), rows = draw_size(1, 19), tokens = panels * kPanel;
  const int64_t width = groups * kCodeGroup * kCodeWords;
  Guarded<uint8_t> codes(tokens * groups * 4), tables(rows * width);
  Guarded<float> scale(tokens), bias(tokens), step(rows), base(rows), y(rows * tokens), top(rows * panels);
  for (int64_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(draw_size(0, 255));
  for (int64_t i = 0; i < tables.size(); ++i) tables[i] = static_cast<uint8_t>(draw_size(most / 2, most));
  fill(scale, 1.0f), fill(bias, 1.0f), fill(step, 0.1f), fill(base, 1.0f);
  table.preview_codes(codes.get(), scale.get(), bias.get(), tables.get(), width, step.get(), base.get(), y.get(),
                      tokens, top.get(), panels, rows, groups, panels);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < tokens; ++n) {
      int32_t sum = 0;
      for (int64_t c = 0; c < groups * kCodeGroup; ++c) {
        sum += tables[r * width + c * kCodeWords + code_of(table, codes.get(), groups, n, c)];
      }
      const float wanted =
          sharpbeam::fused(scale[n], sharpbeam::fused(step[r], static_cast<float>(sum), base[r]), bias[n]);
      CHECK(y[r * tokens + n] == wanted, table.name, groups);
    }
    const float* own = y.get() + r * tokens;
    for (int64_t p = 0; p < panels; ++p) {
      CHECK(top[r * panels + p] == *std::max_element(own + p * kPanel, own + (p + 1) * kPanel), table.name, groups);
    }
  }
}

void check_code_tables(const Kernels& table, int64_t codes, float size) {
  Guarded<int32_t> lengths(codes);
  int64_t dim = 0;
  for (int64_t c = 0; c < codes; ++c) dim += lengths[c] = static_cast<int32_t>(draw_size(1, 4));
  Guarded<float> g(dim), words(dim * kCodeWords), step(1);
  Guarded<uint8_t> tables(codes * kCodeWords);
  Guarded<double> base(1);
  fill(g, size), fill(words, 1.0f);
  table.code_tables(g.get(), words.get(), lengths.get(), codes, tables.get(), step.get(), base.get());
  std::vector<float> entry(static_cast<size_t>(codes * kCodeWords), 0.0f), low(static_cast<size_t>(codes));
  float most = 0.0f, range = 0.0f;
  double least = 0.0;
  for (int64_t c = 0, k = 0; c < codes; ++c) {
    float* own = entry.data() + c * kCodeWords;
    for (const int64_t end = k + lengths[c]; k < end; ++k) {
      for (int64_t i = 0; i < kCodeWords; ++i) own[i] = sharpbeam::fused(g[k], words[k * kCodeWords + i], own[i]);
    }
    low[static_cast<size_t>(c)] = *std::min_element(own, own + kCodeWords);
    const float wide = *std::max_element(own, own + kCodeWords) - low[static_cast<size_t>(c)];
    range = c % kCodeGroup == 0 ? wide : range + wide;
    most = std::max(most, range), least += static_cast<double>(low[static_cast<size_t>(c)]);
  }
  CHECK(step[0] == most / kCodeRange && base[0] == least, table.name, codes);
  const double by = most > 0.0f ? static_cast<double>(kCodeRange / most) : 0.0;
  for (int64_t c = 0; c < codes; ++c) {
    int64_t sum = 0;  // of the largest bytes of a group
    for (int64_t i = 0; i < kCodeWords; ++i) {
      const int64_t at = c * kCodeWords + i;
      const double above = static_cast<double>(entry[static_cast<size_t>(at)] - low[static_cast<size_t>(c)]);
      CHECK(tables[at] == static_cast<uint8_t>(std::nearbyint(above * by)), table.name, codes);
    }
    for (int64_t other = c / kCodeGroup * kCodeGroup; other <= c; ++other)
      sum += *std::max_element(tables.get() + other * kCodeWords, tables.get() + (other + 1) * kCodeWords);
    CHECK(sum <= 255, table.name, codes);
  }
}

TEST(kernels_code_tables) {
  for (const char* const* name = kernel_names(); *name != nullptr; ++name) {
    for (int64_t codes = 1; codes <= 40; ++codes) check_code_tables(kernels(*name), codes, 3.0f);
    check_code_tables(kernels(*name), kMaxCodes, 1e6f);
    check_code_tables(kernels(*name), 9, 0.0f);
  }
}

TEST(kernels_preview_codes) {
  for (const char* const* name = kernel_names(); *name != nullptr; ++name) {
    for (int64_t groups = 1; groups <= 24; ++groups) check_preview_codes(kernels(*name), groups, 31);
    check_preview_codes(kernels(*name), kMaxCodes / kCodeGroup, 31);  // the largest sums that 16 bits must hold
  }
}

}  // namespace
