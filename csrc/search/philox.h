// Random numbers by counting: Philox 4x64-10 (Salmon et al. 2011), as numpy.random.Philox draws them.
#pragma once

#include <array>
#include <cstdint>

namespace sharpbeam {

class Philox {
 public:
  using Counter = std::array<uint64_t, 4>;
  using Key = std::array<uint64_t, 2>;

  Philox(Key key, Counter counter) : key_(key), counter_(counter) {}

  // The next number, in [0, 1), with 53 random bits.
  double next() {
    if (drawn_ == block_.size()) {
      for (uint64_t& word : counter_)
        if (++word != 0) break;
      block_ = rounds(key_, counter_);
      drawn_ = 0;
    }
    return static_cast<double>(block_[drawn_++] >> 11) * 0x1p-53;
  }

 private:
  static Counter rounds(Key key, Counter x) {
    for (int round = 0; round < 10; ++round) {
      __extension__ using Wide = unsigned __int128;
      const Wide a = Wide{0xD2E7470EE14C6C93} * x[0], b = Wide{0xCA5A826395121157} * x[2];
      x = {static_cast<uint64_t>(b >> 64) ^ x[1] ^ key[0], static_cast<uint64_t>(b),
           static_cast<uint64_t>(a >> 64) ^ x[3] ^ key[1], static_cast<uint64_t>(a)};
      key[0] += 0x9E3779B97F4A7C15;
      key[1] += 0xBB67AE8584CAA73B;
    }
    return x;
  }

  Key key_;
  Counter counter_, block_{};
  size_t drawn_ = 4;  // of the block
};

}  // namespace sharpbeam
