// The arithmetic of one Mmad, without checks: operands as they lie in L0A, L0B and the scale memories, sums in double.
#pragma once

#include <cstdint>

#include "twin/cube_engine.h"

namespace npu_lp::twin::cube {

// A as rows x K, or B as columns x K: both are stored [k / C0][row][C0] with rows padded to 16.
struct Operand {
  const uint8_t* data;
  const uint8_t* scales;  // [row / 16][k / 64][row % 16][2]; null: none
  Elem elem;
  uint32_t rows;
};

enum class Start : uint8_t { kZero, kC, kBias };

// c[n / 16][align16(m)][16] fp32: start + the sum over k, added in double and rounded once.
void multiply(const Operand& a, const Operand& b, uint32_t k, Start start, const float* bias, float* c);

}  // namespace npu_lp::twin::cube
