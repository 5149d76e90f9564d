#include "twin/cube_gemm.h"

#include <algorithm>
#include <array>
#include <vector>

#include "formats/e8m0.h"
#include "formats/formats.h"

namespace npu_lp::twin::cube {
namespace {

constexpr uint32_t kTile = 4;  // rows and columns that the inner loop keeps in registers
constexpr uint32_t kMxBlockSize = 32;

using Table = std::array<double, 256>;

const Table& table_of(Elem elem) {
  static const auto make = [](Format format) {
    Table table;
    const uint32_t mask = (1u << info(format).bits) - 1;
    for (uint32_t code = 0; code < 256; ++code) table[code] = decode(format, code & mask);
    return table;
  };
  static const Table e4m3 = make(Format::kE4M3), e5m2 = make(Format::kE5M2), e2m1 = make(Format::kE2M1),
                     e1m2 = make(Format::kE1M2), hif8 = make(Format::kHiF8);
  switch (elem) {
    case Elem::kE5M2:
      return e5m2;
    case Elem::kE2M1:
      return e2m1;
    case Elem::kE1M2:
      return e1m2;
    case Elem::kHiF8:
      return hif8;
    default:
      return e4m3;
  }
}

// The elements of one row in one block of 32 bytes, decoded; `out` goes up in steps of kTile.
void decode_block(Elem elem, const uint8_t* in, uint32_t count, double* out) {
  if (bits_of(elem) == 16) {
    for (uint32_t i = 0; i < count; ++i) {
      const uint16_t code = static_cast<uint16_t>(in[2 * i] | in[2 * i + 1] << 8);
      out[i * kTile] = elem == Elem::kHalf ? widen_fp16(code) : widen_bf16(code);
    }
    return;
  }
  const Table& table = table_of(elem);
  if (bits_of(elem) == 4) {
    for (uint32_t i = 0; i < count; ++i) out[i * kTile] = table[in[i / 2] >> (i % 2 * 4) & 15u];
  } else {
    for (uint32_t i = 0; i < count; ++i) out[i * kTile] = table[in[i]];
  }
}

// Rows in panels of kTile, [panel][k][kTile], with the scales multiplied in: a power of two times an element is exact
// in double, whatever the two are. Rows past the last are zero.
void pack(const Operand& operand, uint32_t k, std::vector<double>& packed) {
  const uint32_t rows = operand.rows;
  const uint32_t padded = (rows + 15) / 16 * 16;
  const uint32_t panels = (rows + kTile - 1) / kTile;
  const uint32_t per_block = 256 / bits_of(operand.elem);
  packed.assign(size_t{panels} * k * kTile, 0.0);
  for (uint32_t row = 0; row < rows; ++row) {
    double* out = packed.data() + size_t{row / kTile} * k * kTile + row % kTile;
    for (uint32_t first = 0; first < k; first += per_block) {
      const uint8_t* in = operand.data + (size_t{first / per_block} * padded + row) * 32;
      decode_block(operand.elem, in, std::min(per_block, k - first), out + size_t{first} * kTile);
    }
    if (operand.scales == nullptr) continue;
    const uint8_t* scales = operand.scales + size_t{row / 16} * (k / 64) * 32 + row % 16 * 2;
    for (uint32_t block = 0; block < k / kMxBlockSize; ++block) {
      const double scale = e8m0_value(scales[block / 2 * 32 + block % 2]);
      double* values = out + size_t{block} * kMxBlockSize * kTile;
      for (uint32_t i = 0; i < kMxBlockSize; ++i) values[i * kTile] *= scale;
    }
  }
}

typedef double Pair __attribute__((vector_size(16)));

// sums[i][j] = sum over k of a[k][i] * b[k][j], each in order of k. Eight independent pairs hide the adder's latency;
// more would not fit the 16 registers that every x86-64 has.
void multiply_tile(const double* a, const double* b, uint32_t k, double* sums) {
  Pair s[kTile][2] = {};
  for (uint32_t i = 0; i < k; ++i, a += kTile, b += kTile) {
    const Pair b0 = {b[0], b[1]};
    const Pair b1 = {b[2], b[3]};
#pragma GCC unroll 4
    for (uint32_t row = 0; row < kTile; ++row) {
      const Pair value = {a[row], a[row]};
      s[row][0] += value * b0;
      s[row][1] += value * b1;
    }
  }
  for (uint32_t row = 0; row < kTile; ++row) {
    for (uint32_t half = 0; half < 2; ++half) {
      sums[row * kTile + half * 2] = s[row][half][0];
      sums[row * kTile + half * 2 + 1] = s[row][half][1];
    }
  }
}

}  // namespace

void multiply(const Operand& a, const Operand& b, uint32_t k, Start start, const float* bias, float* c) {
  thread_local std::vector<double> packed_a, packed_b;
  pack(a, k, packed_a);
  pack(b, k, packed_b);
  const uint32_t m = a.rows, n = b.rows;
  const uint32_t padded = (m + 15) / 16 * 16;
  for (uint32_t column = 0; column < n; column += kTile) {
    for (uint32_t row = 0; row < m; row += kTile) {
      double sums[kTile * kTile];
      multiply_tile(packed_a.data() + size_t{row} * k, packed_b.data() + size_t{column} * k, k, sums);
      for (uint32_t i = 0; i < std::min(kTile, m - row); ++i) {
        float* out = c + (size_t{column / 16} * padded + row + i) * 16 + column % 16;
        for (uint32_t j = 0; j < std::min(kTile, n - column); ++j) {
          double sum = sums[i * kTile + j];
          if (start == Start::kC) sum += out[j];
          if (start == Start::kBias) sum += bias[column + j];
          // Inf - Inf, NaN elements and NaN scales: one code, as the hardware's. CTRL[48] is taken to be 1, the
          // Inf/NaN mode that torch_npu's runtime sets; in the other mode the hardware would saturate here.
          out[j] = canonical(static_cast<float>(sum));
        }
      }
    }
  }
}

}  // namespace npu_lp::twin::cube
