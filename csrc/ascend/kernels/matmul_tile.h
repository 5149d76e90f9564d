// One tile of a product, and the arithmetic on sizes that the matmul kernels share.
#pragma once

#include "ascend/tiling/matmul_tiling_data.h"
#include "kernel_operator.h"

namespace npu_lp::ascend {

__aicore__ inline constexpr uint64_t CeilDiv(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}

__aicore__ inline constexpr uint32_t AlignUp(uint32_t a, uint32_t b) {
  return (a + b - 1) / b * b;
}

template <typename T>
struct ElementTraits {
  static constexpr uint32_t kBits = 8;
};
template <>
struct ElementTraits<fp4x2_e2m1_t> {
  static constexpr uint32_t kBits = 4;
};
template <>
struct ElementTraits<fp4x2_e1m2_t> {
  static constexpr uint32_t kBits = 4;
};

// Elements of a 32-byte block; a square of so many is what a transposed load turns.
template <typename T>
constexpr uint32_t kBlockElements = kBlockBytes * 8 / ElementTraits<T>::kBits;

template <typename T>
__aicore__ inline constexpr uint64_t BytesOf(uint64_t elements) {
  return (elements * ElementTraits<T>::kBits + 7) / 8;
}

// Where a tile's part of one operand begins in GM, and its rows.
struct TileOperand {
  uint64_t at;        // elements
  uint64_t scale_at;  // pairs
  uint32_t rows;
  uint32_t rows_l0;  // as the cube counts them: `rows` up to whole fractals, or squares
};

struct MatmulTile {
  TileOperand a;
  TileOperand b;
  uint64_t k;
  uint64_t out;             // elements
  uint64_t bias;            // elements
  uint32_t out_scale_bits;  // HiF8: fp32 factor of the result
};

// A range of K of one chunk.
struct KRange {
  uint64_t begin;
  uint32_t length;
};

// How a tile's K is cut: into chunks of whole steps, as even as they come. K = 0 is one empty chunk.
struct KChunks {
  uint64_t k;
  uint64_t steps;
  uint32_t base;
  uint32_t count;

  __aicore__ inline void Set(uint64_t length, const MatmulTiling& tiling) {
    k = length;
    base = tiling.base_k;
    steps = CeilDiv(length, base);
    count = static_cast<uint32_t>(CeilDiv(steps, tiling.step_k));
    if (count == 0) count = 1;
  }
  __aicore__ inline uint64_t Begin(uint32_t chunk) const {
    if (chunk >= count) return k;
    return chunk * steps / count * base;
  }
  __aicore__ inline KRange Range(uint32_t chunk) const {
    const uint64_t begin = Begin(chunk);
    return {begin, static_cast<uint32_t>(Begin(chunk + 1) - begin)};
  }
};

}  // namespace npu_lp::ascend
