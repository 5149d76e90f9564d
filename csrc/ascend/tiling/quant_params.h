// What the vector kernels are told about their work: plain data, passed to a kernel by value. quant_tiling.h fills it
// in on the host.
#pragma once

#include <cstdint>

namespace npu_lp::ascend {

// The scale rules of formats/scale_rule.h as one formula, so that a rule is data and not code. On the bits of amax, an
// fp32 without sign, all compared as integers:
//
//     a    = amax, its lower half rounded away for rules that see a bf16 amax
//     q    = bits of max(a, low_bound) * factor            (a zero block stays zero)
//     byte = max((q + carry) >> 23, emax) - emax           carry rounds up to the next power of two
//     byte = 0 for a < zero_below, 255 for Inf and NaN
//
// and the multiplier of the elements is 2^(127 - byte), or 0 where byte is 0 and amax < flush_below.
struct QuantRule {
  float factor;
  int32_t bf16_add;         // 0x7FFF: to nearest even; 0: truncated or untouched
  int32_t bf16_mask;        // 0xFFFF0000 or all ones
  int32_t low_bound;        // bits
  int32_t carry;            // for normal q
  int32_t carry_subnormal;  // for q below 2^-126
  int32_t carry_end;        // from these bits of q on there is no carry
  int32_t emax;
  int32_t zero_below;
  int32_t flush_below;
};

// Rows of a [rows, cols] matrix with blocks along them: mx_quant_last, the rows of mx_dequant.
// A unit of work is a row, or one of `chunks` pieces of a row; a core has a run of units and takes `tile_rows` at once.
struct RowTiling {
  int32_t blocks;  // cores; 0: nothing to do
  uint32_t chunks;
  uint32_t chunk;      // elements, a multiple of 64 unless it is the whole row
  uint32_t tile_rows;  // 1 if chunks > 1
  uint64_t rows;
  uint64_t cols;
  // Bytes of UB: of one buffer of each queue (there are two), and of the working memory.
  uint32_t wide_bytes;    // floats
  uint32_t narrow_bytes;  // codes
  uint32_t scale_bytes;
  uint32_t amax_bytes;
  uint32_t multiplier_bytes;
};

// A batch of `slices` matrices [depth, inner] with blocks along depth. A pair of blocks is 64 rows: what one row of
// scales holds. A unit of work is `tile_pairs` pairs by `chunk` columns.
struct ColumnTiling {
  int32_t blocks;
  uint32_t chunks;      // of the columns
  uint32_t chunk;       // a multiple of 64 unless it is all columns
  uint32_t tile_pairs;  // more than 1 only if chunks is 1
  uint64_t slices;
  uint64_t depth;
  uint64_t inner;
  uint64_t pairs;   // of one slice; mx_quant_grouped: rows of scales
  uint64_t groups;  // mx_quant_grouped
  uint32_t wide_bytes;
  uint32_t narrow_bytes;  // of each output
  uint32_t column_scale_bytes;
  uint32_t row_scale_bytes;  // mx_quant_dual, mx_quant_block
  uint32_t amax_bytes;
  uint32_t multiplier_bytes;
};

// mx_to_block: a batch of `slices` matrices [rows, cols]. A unit of work is a strip of 64 rows by `chunk` columns.
struct ToBlockTiling {
  int32_t blocks;
  uint32_t chunks;
  uint32_t chunk;  // a multiple of 64 unless it is all columns; 1024 at most
  uint64_t slices;
  uint64_t rows;
  uint64_t cols;
  uint64_t strips;  // of one slice
  uint32_t code_bytes;
  uint32_t out_bytes;
  uint32_t row_scale_bytes;  // coming in as well as going out
  uint32_t column_scale_bytes;
};

constexpr uint32_t kToBlockColumns = 1024;  // of a tile: the scales of a row are then one block of 32 bytes of UB
// Working memory: two sets of classes, a word for each of 32 blocks of 64 rows; two rows of sign masks and one of
// scale words, stored 512 bytes at a time.
constexpr uint32_t kToBlockClassBytes = 64 * 32 * 2, kToBlockWorkBytes = 2 * kToBlockClassBytes + 3 * 512;
constexpr uint32_t kToBlockTableBytes = 512;
constexpr uint32_t kToBlockCounters = 64;  // of 32 bits, a core

// What mx_to_block makes of the eight magnitudes of FP4. That depends on how far the byte of an element's row is below
// its tile's, its class:
//
//     class = max(largest byte of a row, offset) - byte of this row, at most `zero`, where all magnitudes become 0
//     zero + 1, zero + 2: rows that were NaN, and rows that were numbers, of a tile that becomes NaN
//
// A byte of the table is a code without its sign, and 128 where the value is no longer what it was.
struct ToBlockTable {
  uint32_t offset;
  uint32_t zero;
  uint32_t registers;    // 32 classes fit into one; of two, both are asked and one answers 0: the second knows 31 to 61
  uint64_t entries[64];  // a class modulo 32 in its register
};

// hif8_amax and hif8_quant. Scales go along rows of [rows, cols] (a tensor is one row), or along the columns of
// `slices` matrices [rows, cols]. The largest magnitudes come from hif8_amax in `parts` partial results a scale, except
// where whole rows fit into UB (parts 0): then hif8_quant finds them itself, and x is read once.
struct Hif8Tiling {
  int32_t amax_blocks;  // cores of hif8_amax; 0: it is not needed
  int32_t blocks;       // cores of hif8_quant
  float inverse_max;
  uint32_t by_columns;
  uint32_t parts;
  uint32_t chunks;     // of the columns
  uint32_t chunk;      // columns of a tile
  uint32_t tile_rows;  // rows of a tile
  uint64_t slices;
  uint64_t rows;
  uint64_t cols;
  uint64_t part;  // along rows: columns of a part, a multiple of chunk; along columns: rows, a multiple of tile_rows
  uint32_t wide_bytes;
  uint32_t narrow_bytes;
  uint32_t scale_bytes;
  uint32_t partial_bytes;
  uint32_t amax_bytes;
};

// out = acc * column scale * row scale + bias, on `slices` matrices [rows, cols]. Scales are indexed
// slice * *_slice + index * *_step, so that a step of 0 is one scale for all.
struct EpilogueTiling {
  int32_t blocks;
  uint32_t chunks;
  uint32_t chunk;
  uint32_t tile_rows;
  uint64_t slices;
  uint64_t rows;
  uint64_t cols;
  uint64_t row_slice;
  uint64_t column_slice;
  uint32_t row_step;
  uint32_t column_step;
  uint32_t has_row;
  uint32_t has_bias;
  uint32_t acc_bytes;
  uint32_t out_bytes;
  uint32_t row_scale_bytes;
  uint32_t column_bytes;  // of the column scales, and of the bias
};

}  // namespace npu_lp::ascend
