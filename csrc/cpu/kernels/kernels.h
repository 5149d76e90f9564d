// The CPU kernel library: plain pointers and sizes, no torch. Each instruction set compiles the same sources
// (isa_*.cpp, quantize.inc, gemm.inc) into its own namespace and fills one table; dispatch.cpp picks a table at load.
//
// No function here starts threads. A caller splits the work over ranges and may run the ranges in any order: the bits
// of a result never depend on the split.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/quant_spec.h"

namespace npu_lp::cpu {

// Blocks along the contiguous axis. Row r of x is x + r*cols elements; codes and scales are contiguous, a row's scales
// being ceil(ceil(cols/block)/2) pairs of bytes, the missing byte of an odd count 0.
struct RowQuantArgs {
  QuantSpec spec;
  const void* x;
  int64_t cols;
  uint8_t* codes;
  uint8_t* scales;
  int64_t first_index = 0;   // of x's first element in the whole tensor, for stochastic rounding
  bool past_caches = false;  // write codes with stores that leave the caches alone, where there are such
};

// Blocks along an axis of `depth` elements that lie `inner` elements apart: element (d, n) of x is x + d*inner + n.
// Scale byte j of pair p of column n is scales + (p*inner + n)*2 + j.
struct ColQuantArgs {
  QuantSpec spec;
  const void* x;
  int64_t depth;
  int64_t inner;
  uint8_t* codes;
  uint8_t* scales;
  int64_t first_index = 0;
  // Not null: blocks are square tiles, and their bytes are written here too, laid out as in RowQuantArgs. Column ranges
  // then begin at multiples of the block.
  uint8_t* tile_row_scales = nullptr;
  bool past_caches = false;  // as in RowQuantArgs
};

// One operand of a matmul, as rows (of M or N) by k. Strides are in elements, for 4-bit codes in nibbles.
struct Operand {
  Format format;
  const uint8_t* codes;
  int64_t row_stride;
  int64_t k_stride;
  int64_t block;          // elements of k that share a scale
  const uint8_t* scales;  // null: no block scales, the codes stand for themselves
  int64_t scale_row_stride;
  int64_t scale_pair_stride;
  int64_t scale_byte_stride;
};

// Factors of the rows or columns of a product; stride 0 for one factor shared by all.
struct Factors {
  const float* values = nullptr;  // null: none
  int64_t stride = 0;
};

// out[m, n] = round(sum_k a[m, k] * b[n, k] * by_column[n] * by_row[m] + bias[n]).
//
// Defined to the bit: operands are decoded to fp32 (code times scale); k ascends; each segment of 256 k's is one chain
// of fused multiply-adds from +0; segment sums are added in order with fp32 additions; then come the multiplications by
// the column's and the row's factor and the addition of bias, as far as there are any, then one rounding. Every NaN is
// the canonical one.
struct Gemm {
  Operand a;
  Operand b;
  int64_t m;
  int64_t n;
  int64_t k;
  void* out;
  int64_t out_row_stride;
  FloatType out_type;
  const float* bias = nullptr;  // null: none
  Factors by_column = {};
  Factors by_row = {};
};

constexpr int64_t kSegment = 256;

// Codes and scales laid out as in ColQuantArgs (inner > 1) or RowQuantArgs (inner == 1), for `outer` such slices. A
// line is `inner` elements at one (outer, depth), or, where inner is 1, a whole row of `depth` elements.
struct DequantArgs {
  Format format;
  int64_t block;
  const uint8_t* codes;
  const uint8_t* scales;
  int64_t outer;
  int64_t depth;
  int64_t inner;
  void* out;
  FloatType out_type;
};

// MXFP4 of a [rows, cols] matrix, laid out as in RowQuantArgs, to FP8 in tiles of 32x32, whose scales are written for
// rows and, as in ColQuantArgs, for columns; all bytes of both.
struct ToBlockArgs {
  Format from;
  Format to;
  bool nan_as_number;
  const uint8_t* codes;
  const uint8_t* scales;
  int64_t rows;
  int64_t cols;
  uint8_t* out;
  uint8_t* row_scales;
  uint8_t* column_scales;
};

struct Kernels {
  const char* name;
  void (*quantize_rows)(const RowQuantArgs&, int64_t row_begin, int64_t row_end);
  // Blocks [block_begin, block_end) of columns [col_begin, col_end).
  void (*quantize_cols)(const ColQuantArgs&, int64_t block_begin, int64_t block_end, int64_t col_begin,
                        int64_t col_end);
  // Both of a [rows, cols] matrix from one read: strips of one block of rows, [strip_begin, strip_end).
  void (*quantize_dual)(const RowQuantArgs&, const ColQuantArgs&, int64_t strip_begin, int64_t strip_end);
  void (*dequantize)(const DequantArgs&, int64_t line_begin, int64_t line_end);
  // Elements [begin, end) of whole tensors: the largest |x| as fp32 bits; and the saturating codes of x / scale, in
  // HiF8 or an 8-bit format.
  uint32_t (*amax_bits)(FloatType, const void* x, int64_t begin, int64_t end);
  void (*encode_scaled)(Format, FloatType, const void* x, int64_t begin, int64_t end, float scale, uint8_t* codes);
  // The output tile (m_tile, n_tile). `workspace` is gemm_workspace bytes, aligned to 64.
  void (*gemm_tile)(const Gemm&, int64_t m_tile, int64_t n_tile, void* workspace);
  int64_t gemm_tile_m;
  int64_t gemm_tile_n;
  int64_t gemm_workspace;
  // Strips of 32 rows, [strip_begin, strip_end). Returns how many values changed.
  int64_t (*mx_to_block)(const ToBlockArgs&, int64_t strip_begin, int64_t strip_end);
};

// The table for this processor: the best instruction set that it has, or the one that NPU_LP_CPU names.
const Kernels& kernels();

// For tests: every table that this processor can run, best first, and the one of that name (null if it is not there).
std::vector<const Kernels*> all_kernels();
const Kernels* kernels_named(std::string_view name);

// For the environment report: the names that NPU_LP_CPU may take here, best first, separated by spaces.
const char* available_kernels();

// While alive, this thread rounds to nearest and computes subnormals exactly, whatever its caller had set.
class FloatEnvironment {
 public:
  FloatEnvironment();
  ~FloatEnvironment();
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  uint64_t saved_;
};

}  // namespace npu_lp::cpu
