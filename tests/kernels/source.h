// Where a case takes its choices from: random numbers of a seed, or the bytes of a fuzzer while they last.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <numbers>

namespace npu_lp::cpu::test {

class Source {
 public:
  explicit Source(uint64_t seed) : state_(seed) {}
  Source(const uint8_t* bytes, size_t size) : bytes_(bytes), left_(size) {
    for (size_t i = 0; i < size; ++i) state_ = state_ * 0x100000001B3ull + bytes[i];
  }

  uint64_t bits() { return draw(8); }

  // In [0, limit); as few of a fuzzer's bytes as that takes.
  uint64_t below(uint64_t limit) { return limit <= 1 ? 0 : draw(limit <= 256 ? 1 : limit <= 65536 ? 2 : 8) % limit; }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(below(static_cast<uint64_t>(high - low + 1)));
  }
  bool one_in(uint64_t n) { return below(n) == 0; }
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }

 private:
  uint64_t draw(size_t count) {
    if (left_ >= count) {
      uint64_t value = 0;
      for (size_t i = 0; i < count; ++i) value = value << 8 | *bytes_++;
      left_ -= count;
      return value;
    }
    left_ = 0;
    state_ += 0x9E3779B97F4A7C15ull;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }

  const uint8_t* bytes_ = nullptr;
  size_t left_ = 0;
  uint64_t state_ = 0;
};

}  // namespace npu_lp::cpu::test
