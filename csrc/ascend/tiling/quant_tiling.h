// Tilings of the vector kernels: how a shape is cut into tiles of UB and shared by the cores. Plain C++, no torch and
// no AscendC; kernels get the result by value (quant_params.h).
//
// Tiles are large (16 KB and more a copy where the shape has it), since these kernels are bound by memory, but not so
// large that a core has too few of them to overlap copies with work.
#pragma once

#include <algorithm>

#include "ascend/tiling/quant_params.h"
#include "formats/quant_spec.h"

namespace npu_lp::ascend {

constexpr uint32_t kUbBytes = 248 * 1024;
constexpr uint32_t kPairElements = 64;  // two blocks, whose scales are one pair of bytes

constexpr uint64_t divide_up(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}
constexpr uint64_t align_up(uint64_t a, uint64_t unit) {
  return divide_up(a, unit) * unit;
}
inline int32_t cores_for(uint64_t units, int cores) {
  return static_cast<int32_t>(std::min<uint64_t>(units, static_cast<uint64_t>(std::max(cores, 1))));
}

inline uint32_t bytes_of(FloatType type) {
  return type == FloatType::kFloat32 ? 4 : 2;
}

inline QuantRule quant_rule(const QuantSpec& spec) {
  const FormatInfo& format = info(spec.format);
  constexpr int32_t kUp = 0x007FFFFF, kLastBinade = 254 << 23, kInf = 255 << 23;
  QuantRule rule{1.0f, 0, -1, 0, 0, 0, kInf, format.emax, 0, 0};
  if (spec.rule == ScaleRule::kRceil) {
    rule.factor = 1.0f / format.max_value;
    rule.low_bound = spec.max_low_bound > 0.0f ? static_cast<int32_t>(bits_of(spec.max_low_bound)) : 0;
    rule.carry = kUp;
    rule.carry_subnormal = 0x003FFFFF;  // rounds up above half of 2^-126 only
    rule.carry_end = kLastBinade;
    rule.emax = 0;
  }
  if (spec.rule == ScaleRule::kDtypeRange) {
    const bool truncate = spec.input != FloatType::kFloat16 && spec.amax_truncates;
    const float dst_max = spec.dst_max == 0.0f ? format.max_value : spec.dst_max;
    rule.bf16_mask = static_cast<int32_t>(0xFFFF0000u);
    rule.bf16_add = truncate ? 0 : 0x7FFF;
    const int32_t first_mantissa_up = dst_max == 6.0f ? 65 : dst_max == 7.0f ? 97 : dst_max == 1.875f ? 113 : 0;
    if (first_mantissa_up != 0) {
      rule.carry = rule.carry_subnormal = (128 - first_mantissa_up) << 16;
      rule.zero_below = 2 << 23;
    } else {
      rule.factor = 1.0f / dst_max;
      rule.carry = kUp;
      rule.carry_end = kLastBinade;
      rule.emax = 0;
    }
  }
  if (spec.rule != ScaleRule::kRceil && spec.underflow != Underflow::kOcp) {
    rule.flush_below = ((spec.underflow == Underflow::kFlushEmax ? format.emax : 0) + 1) << 23;
  }
  return rule;
}

// Elements of a tile of rows, of floats with `wide` bytes and codes with `bits` bits: 16 KB of codes, if that leaves a
// core about four tiles; never less than 16 KB of floats.
inline uint64_t row_tile_elements(uint64_t elements, uint32_t wide, uint32_t bits, int cores) {
  const uint64_t most = wide == 2 && bits == 4 ? 32768 : 16384, least = 16384 / wide;
  return std::clamp<uint64_t>(align_up(divide_up(elements, static_cast<uint64_t>(cores) * 4), 256), least, most);
}

inline RowTiling row_tiling(uint64_t rows, uint64_t cols, uint32_t wide, uint32_t bits, int cores) {
  RowTiling t{};
  if (rows == 0 || cols == 0) return t;
  const uint64_t width = align_up(cols, kPairElements), most = row_tile_elements(rows * width, wide, bits, cores);
  t.rows = rows;
  t.cols = cols;
  uint64_t chunks = divide_up(width, most);
  // Too few rows for the cores: cut them, down to pieces that are still worth a copy.
  const uint64_t all = static_cast<uint64_t>(cores);
  if (rows < all) chunks = std::max(chunks, std::min(divide_up(all, rows), divide_up(width, 2048)));
  const uint64_t chunk = align_up(divide_up(cols, chunks), kPairElements);
  chunks = divide_up(cols, chunk);
  t.chunks = static_cast<uint32_t>(chunks);
  t.chunk = static_cast<uint32_t>(chunks == 1 ? cols : chunk);
  t.tile_rows = chunks == 1
                    ? static_cast<uint32_t>(std::clamp<uint64_t>(std::min(most / width, divide_up(rows, all)), 1, 4095))
                    : 1;
  t.blocks = cores_for(rows * chunks, cores);
  const uint64_t pitch = align_up(t.chunk, kPairElements), elements = align_up(t.tile_rows * pitch, 256);
  const uint64_t blocks = align_up(elements / 32, 64);
  t.wide_bytes = static_cast<uint32_t>(elements * wide + 256);  // clearing a tail looks up to 256 bytes past the end
  t.narrow_bytes = static_cast<uint32_t>(elements * bits / 8);
  t.scale_bytes = static_cast<uint32_t>(blocks);
  t.amax_bytes = static_cast<uint32_t>(blocks * wide);
  t.multiplier_bytes = static_cast<uint32_t>(blocks * 8);
  return t;
}

// Codes of `outputs` quantizations of one input (mx_quant_dual: 2). `row_scales`: the kernel also writes scales along
// rows. `may_stack`: it takes several pairs of blocks at once, where rows are short.
struct ColumnUse {
  uint32_t outputs = 1;
  bool row_scales = false;
  bool tiles = false;  // mx_quant_block
  bool may_stack = false;
};

inline void column_buffers(ColumnTiling& t, uint32_t wide, uint32_t bits, const ColumnUse& use) {
  const uint64_t pitch = align_up(t.chunk, kPairElements), elements = t.tile_pairs * kPairElements * pitch;
  const uint64_t blocks = align_up(elements / 32, 64);
  t.wide_bytes = static_cast<uint32_t>(elements * wide + 256);  // the last 128 columns of the last row, read whole
  t.narrow_bytes = static_cast<uint32_t>(align_up(elements, 256) * bits / 8 + 128);
  t.column_scale_bytes = static_cast<uint32_t>((t.tile_pairs - 1) * pitch * 2 + align_up(pitch, 128) * 2);
  t.row_scale_bytes = !use.row_scales ? 0 : static_cast<uint32_t>(use.tiles ? kPairElements * 32 : blocks);
  t.amax_bytes =
      !use.row_scales ? 0 : static_cast<uint32_t>((use.tiles ? 2 * align_up(pitch, 256) + 128 : blocks) * wide);
  t.multiplier_bytes = !use.row_scales ? 0 : static_cast<uint32_t>(use.tiles ? 3 * 512 + 64 + 256 : blocks * 8);
}

inline uint32_t ub_bytes(const ColumnTiling& t, uint32_t outputs) {
  return 2 * (t.wide_bytes + outputs * t.narrow_bytes + t.column_scale_bytes + t.row_scale_bytes) + t.amax_bytes +
         t.multiplier_bytes;
}
inline uint32_t ub_bytes(const RowTiling& t) {
  return 2 * (t.wide_bytes + t.narrow_bytes + t.scale_bytes) + t.amax_bytes + t.multiplier_bytes;
}

// `pairs`: rows of scales of one slice.
inline ColumnTiling column_tiling(uint64_t slices, uint64_t depth, uint64_t inner, uint64_t pairs, uint32_t wide,
                                  uint32_t bits, const ColumnUse& use, int cores) {
  ColumnTiling t{};
  t.slices = slices;
  t.depth = depth;
  t.inner = inner;
  t.pairs = pairs;
  if (slices == 0 || inner == 0 || pairs == 0) return t;
  const uint64_t all = static_cast<uint64_t>(cores), strips = slices * pairs;
  t.tile_pairs = 1;
  // The widest chunk that fits and leaves every core two tiles or more; at worst 128 columns, or 64 if cores would
  // idle.
  uint64_t width = wide == 2 ? 512 : 256;
  const auto fits = [&](uint64_t w) {
    ColumnTiling trial = t;
    trial.chunk = static_cast<uint32_t>(std::min(w, align_up(inner, kPairElements)));
    column_buffers(trial, wide, bits, use);
    return ub_bytes(trial, use.outputs) <= kUbBytes;
  };
  while (!fits(width)) width -= 128;
  while (width > 128 && strips * divide_up(inner, width) < 2 * all) width = align_up(width / 2, 128);
  if (strips * divide_up(inner, width) < all) width = 64;
  const uint64_t chunk = align_up(divide_up(inner, divide_up(inner, width)), kPairElements);
  t.chunks = static_cast<uint32_t>(divide_up(inner, chunk));
  t.chunk = static_cast<uint32_t>(t.chunks == 1 ? inner : chunk);
  if (use.may_stack && t.chunks == 1) {
    const uint64_t pitch = align_up(inner, kPairElements), worth = divide_up(strips, all);
    t.tile_pairs = static_cast<uint32_t>(std::clamp<uint64_t>(std::min({256 / pitch, worth, pairs}), 1, 63));
  }
  column_buffers(t, wide, bits, use);
  t.blocks = cores_for(slices * divide_up(pairs, t.tile_pairs) * t.chunks, cores);
  return t;
}

// --- One function an op
// -----------------------------------------------------------------------------------------------

inline RowTiling mx_quant_last_tiling(const QuantSpec& spec, int64_t rows, int64_t cols, int cores) {
  return row_tiling(static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), bytes_of(spec.input),
                    static_cast<uint32_t>(info(spec.format).bits), cores);
}

// x as [slices, depth, inner]. Slices of whole pairs are one long matrix.
inline ColumnTiling batch_tiling(FloatType type, Format format, int64_t slices, int64_t depth, int64_t inner,
                                 const ColumnUse& use, int cores) {
  if (depth % kPairElements == 0) {
    depth *= slices;
    slices = 1;
  }
  return column_tiling(static_cast<uint64_t>(slices), static_cast<uint64_t>(depth), static_cast<uint64_t>(inner),
                       divide_up(static_cast<uint64_t>(depth), kPairElements), bytes_of(type),
                       static_cast<uint32_t>(info(format).bits), use, cores);
}

inline ColumnTiling mx_quant_axis2_tiling(const QuantSpec& spec, int64_t slices, int64_t depth, int64_t inner,
                                          int cores) {
  return batch_tiling(spec.input, spec.format, slices, depth, inner, {1, false, false, true}, cores);
}

inline ColumnTiling mx_quant_dual_tiling(const QuantSpec& spec, int64_t slices, int64_t rows, int64_t cols, int cores) {
  return batch_tiling(spec.input, spec.format, slices, rows, cols, {2, true, false, false}, cores);
}

inline ColumnTiling mx_quant_block_tiling(const QuantSpec& spec, int64_t slices, int64_t rows, int64_t cols,
                                          int cores) {
  return batch_tiling(spec.input, spec.format, slices, rows, cols, {1, true, true, false}, cores);
}

inline ColumnTiling mx_quant_grouped_tiling(const QuantSpec& spec, int64_t rows, int64_t cols, int64_t groups,
                                            int cores) {
  ColumnTiling t = column_tiling(1, static_cast<uint64_t>(rows), static_cast<uint64_t>(cols),
                                 static_cast<uint64_t>(rows / kPairElements + groups), bytes_of(spec.input),
                                 static_cast<uint32_t>(info(spec.format).bits), {}, cores);
  t.groups = static_cast<uint64_t>(groups);
  if (t.blocks == 0 && rows > 0 && cols > 0) {  // no scales at all, but codes to be zeroed
    t.blocks = 1;
    t.chunks = 1;
    t.chunk = 64;
    t.tile_pairs = 1;
    column_buffers(t, bytes_of(spec.input), static_cast<uint32_t>(info(spec.format).bits), {});
  }
  return t;
}

inline RowTiling mx_dequant_last_tiling(Format format, FloatType out, int64_t rows, int64_t cols, int cores) {
  return row_tiling(static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), bytes_of(out),
                    static_cast<uint32_t>(info(format).bits), cores);
}

inline ColumnTiling mx_dequant_axis2_tiling(Format format, FloatType out, int64_t slices, int64_t depth, int64_t inner,
                                            int cores) {
  return batch_tiling(out, format, slices, depth, inner, {}, cores);
}

}  // namespace npu_lp::ascend
