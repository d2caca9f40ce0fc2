// The kernel of the low-bit preview: approximate logits of all tokens from 4-bit weights. Part of body.h.
//
// A panel is kPanel tokens. For each block of 8 coordinates it holds 4 bytes of each token: byte j has coordinate j of
// the block in its low nibble and coordinate 4 + j in its high one, each as q + 8, 0 <= q + 8 <= 15. Both halves are
// unpacked in registers, and meet 4 bytes of the input each.

// kRows rows of one panel.
template <int kRows>
[[gnu::noinline]] void preview_panel(const uint8_t* weight, const float* scale, const float* bias, const uint8_t* x,
                                     int64_t x_stride, const int32_t* start, const float* x_scale, float* y,
                                     int64_t y_stride, float* top, int64_t top_stride, int64_t blocks) {
  constexpr int kVecs = Int4::vecs(kRows);
  constexpr int64_t kStep = int64_t{kPanel} * 4;
  int32_t sums[kRows][kPanel];
  for (int at = 0; at < kPanel; at += kVecs * kLanes) {
    Ints total[kRows][kVecs];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kVecs; ++c) total[r][c] = set_ints(start[r]);
    }
    const uint8_t* from = weight + at * 4;
    int64_t k = 0;
    if constexpr (kRows == 1) {  // two sums each: the latency of one would be the cost
      Ints other[kVecs];
#pragma GCC unroll 4
      for (int c = 0; c < kVecs; ++c) other[c] = set_ints(0);
      for (; k + 2 <= blocks; k += 2, from += 2 * kStep) {
        const Int4::Inputs first = Int4::load_inputs(x + k * 8), second = Int4::load_inputs(x + k * 8 + 8);
#pragma GCC unroll 4
        for (int c = 0; c < kVecs; ++c) {
          total[0][c] = Int4::dot(total[0][c], Int4::load_weights(from + c * kLanes * 4), first);
          other[c] = Int4::dot(other[c], Int4::load_weights(from + kStep + c * kLanes * 4), second);
        }
      }
#pragma GCC unroll 4
      for (int c = 0; c < kVecs; ++c) total[0][c] = add_ints(total[0][c], other[c]);
    }
    for (; k < blocks; ++k, from += kStep) {
      Int4::Weights w[kVecs];
#pragma GCC unroll 4
      for (int c = 0; c < kVecs; ++c) w[c] = Int4::load_weights(from + c * kLanes * 4);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Int4::Inputs input = Int4::load_inputs(x + r * x_stride + k * 8);
#pragma GCC unroll 4
        for (int c = 0; c < kVecs; ++c) total[r][c] = Int4::dot(total[r][c], w[c], input);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < kVecs; ++c) store_ints(sums[r] + at + c * kLanes, total[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const Vec by = set(x_scale[r]);
    Vec best = set(-kInfinity);
#pragma GCC unroll 4
    for (int at = 0; at < kPanel; at += kLanes) {
      const Vec found = add(load(bias + at), mul(by, mul(load(scale + at), to_floats(load_sums(sums[r] + at)))));
      store(y + r * y_stride + at, found);
      best = max(found, best);
    }
    top[r * top_stride] = max_lane(best);
  }
}

template <int kRows>
inline void preview_rows(const uint8_t* weight, const float* scale, const float* bias, const uint8_t* x,
                         int64_t x_stride, const int32_t* start, const float* x_scale, float* y, int64_t y_stride,
                         float* top, int64_t top_stride, int64_t rows, int64_t blocks) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      preview_rows<kRows - 1>(weight, scale, bias, x, x_stride, start, x_scale, y, y_stride, top, top_stride, rows,
                              blocks);
      return;
    }
  }
  preview_panel<kRows>(weight, scale, bias, x, x_stride, start, x_scale, y, y_stride, top, top_stride, blocks);
}

void preview_int4_kernel(const uint8_t* packed, const float* scale, const float* bias, const int8_t* x,
                         int64_t x_stride, const float* x_scale, float* y, int64_t y_stride, float* top,
                         int64_t top_stride, int64_t rows, int64_t in, int64_t panels) {
  constexpr int64_t kMostRows = 192;  // whose starts are kept at a time
  const int64_t blocks = in / 8;
  int32_t starts[kMostRows];
  for (int64_t from = 0; from < rows; from += kMostRows) {
    const int64_t count = rows - from < kMostRows ? rows - from : kMostRows;
    const int64_t parts = (count + Int4::kRows - 1) / Int4::kRows;
    for (int64_t r = 0; r < count; ++r) starts[r] = start_sum(x + (from + r) * x_stride, in) / 16;  // -8 times the sum
    for (int64_t p = 0; p < panels; ++p) {
      for (int64_t part = 0; part < parts; ++part) {  // of nearly equal size
        const int64_t first = part * count / parts, some = (part + 1) * count / parts - first;
        preview_rows<Int4::kRows>(packed + p * blocks * kPanel * 4, scale + p * kPanel, bias + p * kPanel,
                                  reinterpret_cast<const uint8_t*>(x + (from + first) * x_stride), x_stride,
                                  starts + first, x_scale + from + first, y + (from + first) * y_stride + p * kPanel,
                                  y_stride, top + (from + first) * top_stride + p, top_stride, some, blocks);
      }
    }
  }
}
