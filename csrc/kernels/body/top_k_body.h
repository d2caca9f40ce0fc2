// Top-k selection. Part of body.h.

constexpr int64_t kFew = 64;

// A heap of the k best, the worst at the root. A NaN counts as -inf.
struct Heap {
  float* value;
  int32_t* index;

  bool worse(int64_t a, int64_t b) const {
    return value[a] < value[b] || (value[a] == value[b] && index[a] > index[b]);
  }
  void swap(int64_t a, int64_t b) const {
    const float v = value[a];
    const int32_t i = index[a];
    value[a] = value[b];
    index[a] = index[b];
    value[b] = v;
    index[b] = i;
  }
  void sink(int64_t at, int64_t size) const {
    for (;;) {
      int64_t child = 2 * at + 1;
      if (child >= size) return;
      if (child + 1 < size && worse(child + 1, child)) ++child;
      if (!worse(child, at)) return;
      swap(child, at);
      at = child;
    }
  }
};

// The maximum, the first of equal ones. The second argument of max is never a NaN.
inline void top_one(const float* x, int64_t n, float* value, int32_t* index) {
  Vec top = set(-kInfinity);
  for (int64_t i = 0; i < n; i += kLanes) top = max(load_part(x + i, n - i, -kInfinity), top);
  const Vec best = set(max_lane(top));
  int64_t at = 0;
  uint32_t found = 0;
  for (; found == 0; at += kLanes) {
    const Vec part = max(load_part(x + at, n - at, -kInfinity), set(-kInfinity));
    found = bits(less(part, best)) ^ 0xffffu;
  }
  at += __builtin_ctz(found) - kLanes;
  *index = static_cast<int32_t>(at);
  *value = x[at] == x[at] ? x[at] : -kInfinity;
}

// Few numbers: the place of each is how many come before it.
inline void top_of_few(const float* x, int64_t n, int64_t k, float* values, int32_t* indices) {
  Vec all[kFew / kLanes];
  const Vec low = set(-kInfinity);
  const int64_t parts = (n + kLanes - 1) / kLanes;
  for (int64_t c = 0; c < parts; ++c) all[c] = max(load_part(x + c * kLanes, n - c * kLanes, -kInfinity), low);
  for (int64_t i = 0; i < n; ++i) {
    const float value = x[i] == x[i] ? x[i] : -kInfinity;
    const Vec own = set(value);
    int64_t place = 0;
    for (int64_t c = 0; c < parts; ++c) {
      const int64_t before = i - c * kLanes;  // elements of this part with a lower index
      const uint32_t lower = before <= 0 ? 0 : before >= kLanes ? 0xffffu : (1u << before) - 1u;
      const uint32_t more = bits(less(own, all[c])), fewer = bits(less(all[c], own));
      place += __builtin_popcount(more | (lower & ~fewer));
    }
    if (place >= k) continue;
    values[place] = value;
    indices[place] = static_cast<int32_t>(i);
  }
}

void top_k_kernel(const float* x, int64_t n, int64_t k, float* values, int32_t* indices) {
  if (k == 1) return top_one(x, n, values, indices);
  if (n <= kFew) return top_of_few(x, n, k, values, indices);
  const Heap heap{values, indices};
  for (int64_t i = 0; i < k; ++i) {
    values[i] = x[i] == x[i] ? x[i] : -kInfinity;
    indices[i] = static_cast<int32_t>(i);
  }
  for (int64_t i = k / 2; i-- > 0;) heap.sink(i, k);
  // Later elements have higher indices than all in the heap: they must exceed its worst, not equal it.
  const auto offer = [&](int64_t at, uint32_t found) {
    for (; found != 0; found &= found - 1) {
      const int64_t i = at + __builtin_ctz(found);
      if (!(x[i] > values[0])) continue;
      values[0] = x[i];
      indices[0] = static_cast<int32_t>(i);
      heap.sink(0, k);
    }
  };
  int64_t i = k;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    const Vec bar = set(values[0]);
    Vec part[4];
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) part[c] = load(x + i + c * kLanes);
    // max returns its second argument where the first is a NaN; the second never is one here.
    const Vec top = max(max(part[0], max(part[1], bar)), max(part[2], max(part[3], bar)));
    if (bits(less(bar, top)) == 0) continue;
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) offer(i + c * kLanes, bits(less(bar, part[c])));
  }
  for (; i < n; i += kLanes) offer(i, bits(less(set(values[0]), load_part(x + i, n - i, -kInfinity))));
  for (int64_t size = k; size-- > 1;) {  // heap sort: the worst moves to the end
    heap.swap(0, size);
    heap.sink(0, size);
  }
}
