// How to quantize one tensor to an MX format: filled once per call by the op's argument checks, read by every backend.
#pragma once

#include <cstdint>

#include "formats/formats.h"
#include "formats/scale_rule.h"

namespace npu_lp {

constexpr int64_t kMxBlock = 32;

enum class FloatType { kBFloat16, kFloat16, kFloat32 };

struct QuantSpec {
  Format format = Format::kE4M3;
  ScaleRule rule = ScaleRule::kRceil;
  Rounding rounding = Rounding::kRint;
  Underflow underflow = Underflow::kOcp;
  FloatType input = FloatType::kBFloat16;
  bool amax_truncates = true;  // dtype_range on fp32: truncate amax to bf16 (last axis) or round it (other axes)
  float dst_max = 0.0f;        // dtype_range; 0: the format's maximum
  float max_low_bound = 0.0f;  // rceil: amax is at least this
  int64_t block = kMxBlock;
  uint64_t seed = 0;  // stochastic rounding: the random number of an element is a function of this and its index
};

// The random number in [0, 1) of element `index`, independent of how the work is split (splitmix64's finalizer).
inline double uniform_of(uint64_t seed, int64_t index) {
  uint64_t z = seed + (static_cast<uint64_t>(index) + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace npu_lp
