// The kernel of the preview: sums of table entries by 4-bit codes, as Quick ADC (Andre, Kermarrec & Le Scouarnec 2017)
// takes them. Part of body.h.
//
// A panel is kPanel tokens. It holds its codes by groups of kCodeGroup, four lines of 64 bytes each:
//
//   code by code     line c / 2 of a group has codes c (low nibbles) and c + 1 of all tokens: byte 2 i of token i, byte
//                    2 i + 1 of token 32 + i, so that the even and the odd bytes of a sum are neighbouring tokens each
//   token by token   line i / 16 has all codes of token i: byte 4 (i % 16) + j has code j (low nibble) and code 4 + j
//
// Code by code, a table of 16 bytes is in every 16 bytes of a register, and one instruction looks up a code of all its
// tokens. Half a group is added in bytes, then in 16 bits: `total` takes pairs of bytes as they are, `odd` the upper
// byte of each alone, and total - 256 odd are the sums of the even bytes. Token by token, a register holds the tables
// of four codes, and a dot product adds up the four bytes of each token.

// The sums [kRows][kPanel] of one panel.
template <int kRows, typename Unit>
[[gnu::noinline]] void code_sums_of_panel(const uint8_t* codes, const uint8_t* tables, int64_t stride, int64_t groups,
                                          uint16_t (*sums)[kPanel]) {
  if constexpr (Unit::kByToken)
    return Unit::template sums_of_panel<kRows>(codes, tables, stride, groups, sums);
  else {
    constexpr int kHalf = 4;  // codes
    using Bytes = typename Unit::Bytes;
    for (int part = 0; part < kPanel; part += Unit::kBytes) {
      Bytes total[kRows], odd[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) total[r] = odd[r] = Unit::zero();
      const uint8_t *from = codes + part, *table = tables;
      for (int64_t h = 0; h < 2 * groups; ++h, from += 2 * kPanel, table += kHalf * sharpbeam::kCodeWords) {
        const Bytes first = Unit::load(from), second = Unit::load(from + kPanel);
        const Bytes code[] = {Unit::low(first), Unit::high(first), Unit::low(second), Unit::high(second)};
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const auto look_up = [&](int c) {
            return Unit::look_up(table + r * stride + c * sharpbeam::kCodeWords, code[c]);
          };
          const Bytes sum =
              Unit::add_bytes(Unit::add_bytes(look_up(0), look_up(1)), Unit::add_bytes(look_up(2), look_up(3)));
          total[r] = Unit::add_words(total[r], sum);
          odd[r] = Unit::add_upper(odd[r], sum);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        Unit::store_even(sums[r] + part / 2, total[r], odd[r]);
        Unit::store(sums[r] + kPanel / 2 + part / 2, odd[r]);
      }
    }
  }
}

// The arrays of the rows of a preview: table.h, preview_codes.
struct CodeRows {
  const uint8_t* tables;
  int64_t table_stride;
  const float *step, *base;
  float* y;
  int64_t y_stride;
  float* top;
  int64_t top_stride;
};

template <int kRows>
inline void preview_codes_of_panel(const uint8_t* codes, const float* scale, const float* bias, const CodeRows& x,
                                   int64_t row, int64_t rows, int64_t panel, int64_t groups) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return preview_codes_of_panel<kRows - 1>(codes, scale, bias, x, row, rows, panel, groups);
  }
  uint16_t sums[kRows][kPanel];
  code_sums_of_panel<kRows, Codes>(codes, x.tables + row * x.table_stride, x.table_stride, groups, sums);
  for (int r = 0; r < kRows; ++r, ++row) {
    const Vec step = set(x.step[row]), base = set(x.base[row]);
    float* y = x.y + row * x.y_stride + panel * kPanel;
    Vec best = set(-kInfinity);
#pragma GCC unroll 4
    for (int at = 0; at < kPanel; at += kLanes) {
      const Vec dot = fma(step, load_words(sums[r] + at), base);
      const Vec logit = fma(load(scale + at), dot, load(bias + at));
      store(y + at, logit);
      best = max(logit, best);
    }
    x.top[row * x.top_stride + panel] = max_lane(best);
  }
}

void preview_codes_kernel(const uint8_t* codes, const float* scale, const float* bias, const uint8_t* tables,
                          int64_t table_stride, const float* step, const float* base, float* y, int64_t y_stride,
                          float* top, int64_t top_stride, int64_t rows, int64_t groups, int64_t panels) {
  constexpr int64_t kTogether = 8;  // panels that a block of rows meets while its tables are in the first cache
  const CodeRows x{tables, table_stride, step, base, y, y_stride, top, top_stride};
  const int64_t blocks = (rows + Codes::kRows - 1) / Codes::kRows, bytes = groups * 4 * kPanel;
  for (int64_t from = 0; from < panels; from += kTogether) {
    const int64_t end = from + kTogether < panels ? from + kTogether : panels;
    for (int64_t block = 0; block < blocks; ++block) {  // of nearly equal size
      const int64_t first = block * rows / blocks, count = (block + 1) * rows / blocks - first;
      for (int64_t p = from; p < end; ++p) {
        preview_codes_of_panel<Codes::kRows>(codes + p * bytes, scale + p * kPanel, bias + p * kPanel, x, first, count,
                                             p, groups);
      }
    }
  }
}

// Entries are computed twice, which takes less than keeping them.
void code_tables_kernel(const float* g, const float* words, const int32_t* lengths, int64_t codes, uint8_t* tables,
                        float* step, double* base) {
  static_assert(sharpbeam::kCodeWords == kLanes);
  const auto for_each_code = [&](auto visit) {
    int64_t k = 0;
    for (int64_t c = 0; c < codes; ++c) {
      Vec entry = set(0.0f);
      for (const int64_t end = k + lengths[c]; k < end; ++k) entry = fma(set(g[k]), load(words + k * kLanes), entry);
      visit(c, entry);
    }
  };
  float low[sharpbeam::kMaxCodes], most = 0.0f, range = 0.0f;
  *base = 0.0;
  for_each_code([&](int64_t c, Vec entry) {
    low[c] = -max_lane(sub(set(0.0f), entry));
    const float own = max_lane(entry) - low[c];
    range = c % sharpbeam::kCodeGroup == 0 ? own : range + own;
    most = range > most ? range : most;
    *base += static_cast<double>(low[c]);
  });
  *step = most / sharpbeam::kCodeRange;
  const Vec by = set(most > 0.0f ? sharpbeam::kCodeRange / most : 0.0f);
  for_each_code([&](int64_t c, Vec entry) {
    const Vec byte = fma(sub(entry, set(low[c])), by, set(kRound));
    store_int8(reinterpret_cast<int8_t*>(tables + c * kLanes), kLanes, byte);
  });
}
