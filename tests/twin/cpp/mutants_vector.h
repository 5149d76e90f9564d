// What the drivers of the vector kernels share: buffers, inputs, comparisons.
#pragma once

#include <algorithm>
#include <random>

#include "ascend/host/twin_launch.h"
#include "ascend/launch/launcher.h"
#include "formats/formats.h"
#include "mutants.h"

namespace mutants {

using npu_lp::twin::Options;
using Bytes = std::vector<uint8_t>;
using Halves = std::vector<uint16_t>;  // bf16

// Each buffer is a tensor of GM of exactly its size.
class Gm {
 public:
  explicit Gm(const Options& options) { launch_.options = options; }
  template <typename T>
  void add(const std::vector<T>& data) {
    if (!data.empty()) launch_.gm.push_back({data.data(), data.size() * sizeof(T)});
  }
  npu_lp::ascend::Stream stream() { return &launch_; }

 private:
  npu_lp::ascend::TwinLaunch launch_;
};

template <typename... Buffers>
Gm gm_of(const Options& options, const Buffers&... buffers) {
  Gm gm(options);
  (gm.add(buffers), ...);
  return gm;
}

// Values whose magnitudes differ from block to block, in both directions.
inline Halves values(int64_t rows, int64_t cols) {
  std::mt19937_64 random(11);
  Halves x(static_cast<size_t>(rows * cols));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      const auto exponent = static_cast<int>((row / 32 * 5 + col / 32 * 3 + static_cast<int64_t>(random() % 4)) % 23);
      const float sign = random() % 2 == 0 ? 1.0f : -1.0f;
      const float mantissa = 1.0f + static_cast<float>(random() % 128) / 128;
      x[static_cast<size_t>(row * cols + col)] = npu_lp::narrow_bf16(sign * mantissa * npu_lp::pow2(exponent - 9));
    }
  }
  return x;
}

inline Bytes bytes(int64_t size) {
  return Bytes(static_cast<size_t>(size), 0xA5);
}

inline std::string differs(const char* what, const Bytes& got, const Bytes& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (got[i] != wanted[i]) {
      return std::string(what) + " byte " + std::to_string(i) + ": " + std::to_string(got[i]) + ", not " +
             std::to_string(wanted[i]);
    }
  }
  return {};
}

inline std::string first_of(std::initializer_list<std::string> all) {
  for (const std::string& one : all) {
    if (!one.empty()) return one;
  }
  return {};
}

template <typename T>
Bytes as_bytes(const std::vector<T>& data) {
  const auto* begin = reinterpret_cast<const uint8_t*>(data.data());
  return Bytes(begin, begin + data.size() * sizeof(T));
}

// Pairs of blocks.
inline int64_t pairs_of(int64_t size) {
  return (size + 63) / 64;
}

}  // namespace mutants
