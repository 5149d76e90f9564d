// Tilings of hif8_amax, hif8_quant and scale_epilogue.
#pragma once

#include "ascend/tiling/quant_tiling.h"

namespace npu_lp::ascend {

enum class ScalesAlong { kTensor, kRows, kColumns };

constexpr uint64_t kMostParts = 64;  // partial maxima of a scale: they are combined in one register

inline void hif8_row_tiling(Hif8Tiling& t, uint32_t wide, int cores) {
  const uint64_t all = static_cast<uint64_t>(cores), width = align_up(t.cols, kPairElements);
  const uint64_t most = row_tile_elements(t.rows * width, wide, 8, cores);
  if (width <= most) {
    t.chunks = 1;
    t.chunk = static_cast<uint32_t>(t.cols);
    t.tile_rows = static_cast<uint32_t>(std::clamp<uint64_t>(std::min(most / width, divide_up(t.rows, all)), 1, 4095));
  } else {
    t.chunk = static_cast<uint32_t>(align_up(most, 128));
    t.chunks = static_cast<uint32_t>(divide_up(t.cols, t.chunk));
    t.tile_rows = 1;
    const uint64_t parts = std::clamp<uint64_t>(all / t.rows, 1, std::min<uint64_t>(kMostParts, t.chunks));
    t.part = divide_up(t.chunks, parts) * t.chunk;
    t.parts = static_cast<uint32_t>(divide_up(t.cols, t.part));
    t.amax_blocks = cores_for(t.rows * t.parts, cores);
    t.partial_bytes = kMostParts * 4;
  }
  t.blocks = cores_for(t.rows * t.chunks, cores);
  const uint64_t elements = align_up(t.tile_rows * align_up(t.chunk, kPairElements), 256);
  t.wide_bytes = static_cast<uint32_t>(elements * wide + 256);
  t.narrow_bytes = static_cast<uint32_t>(elements);
  t.scale_bytes = static_cast<uint32_t>(align_up(t.tile_rows * 4, 32));
  t.amax_bytes = 256;
}

inline void hif8_column_tiling(Hif8Tiling& t, uint32_t wide, int cores) {
  const uint64_t all = static_cast<uint64_t>(cores);
  uint64_t width = 512;
  while (width > 128 && t.slices * divide_up(t.rows, 32) * divide_up(t.cols, width) < 2 * all) width /= 2;
  const uint64_t chunk = align_up(divide_up(t.cols, divide_up(t.cols, width)), kPairElements);
  t.chunks = static_cast<uint32_t>(divide_up(t.cols, chunk));
  t.chunk = static_cast<uint32_t>(t.chunks == 1 ? t.cols : chunk);
  const uint64_t pitch = align_up(t.chunk, kPairElements);
  t.tile_rows = static_cast<uint32_t>(std::min<uint64_t>({t.rows, 16384 / pitch, 4095}));
  const uint64_t strips = divide_up(t.rows, t.tile_rows);
  // As many parts as leave the busiest core the least to do.
  uint64_t parts = 1, least = UINT64_MAX;
  for (uint64_t p = 1; p <= std::min<uint64_t>(16, strips); ++p) {
    const uint64_t most = divide_up(t.slices * t.chunks * p, all) * divide_up(strips, p);
    if (most < least) parts = p, least = most;
  }
  t.part = divide_up(strips, parts) * t.tile_rows;
  t.parts = static_cast<uint32_t>(divide_up(t.rows, t.part));
  t.amax_blocks = cores_for(t.slices * t.parts * t.chunks, cores);
  t.blocks = cores_for(t.slices * t.chunks * strips, cores);
  t.wide_bytes = static_cast<uint32_t>(t.tile_rows * pitch * wide + 256);
  t.narrow_bytes = static_cast<uint32_t>(t.tile_rows * pitch + 128);
  t.scale_bytes = static_cast<uint32_t>(align_up(pitch, 128) * 4);
  t.partial_bytes = static_cast<uint32_t>(t.parts * pitch * 4);
  t.amax_bytes = static_cast<uint32_t>(align_up(pitch, 128) * 4);
}

// x as `slices` matrices [rows, cols]; without columns' scales the slices are more rows, and a tensor is one.
inline Hif8Tiling hif8_tiling(FloatType input, ScalesAlong along, int64_t slices, int64_t rows, int64_t cols,
                              float inverse_max, int cores) {
  Hif8Tiling t{};
  t.inverse_max = inverse_max;
  t.by_columns = along == ScalesAlong::kColumns;
  t.slices = static_cast<uint64_t>(slices);
  t.rows = static_cast<uint64_t>(rows);
  t.cols = static_cast<uint64_t>(cols);
  if (t.slices == 0 || t.rows == 0 || t.cols == 0) return t;
  if (along == ScalesAlong::kColumns) {
    hif8_column_tiling(t, bytes_of(input), cores);
    return t;
  }
  t.rows *= t.slices;
  t.slices = 1;
  if (along == ScalesAlong::kTensor) {
    t.cols *= t.rows;
    t.rows = 1;
  }
  hif8_row_tiling(t, bytes_of(input), cores);
  return t;
}

// fp32 values of memory that hif8_amax fills and hif8_quant reads; 0: neither touches it.
inline int64_t hif8_partials(const Hif8Tiling& t) {
  return static_cast<int64_t>(t.parts * (t.by_columns != 0 ? t.slices * t.cols : t.rows));
}

inline uint32_t amax_ub_bytes(const Hif8Tiling& t) {
  return 2 * (t.wide_bytes + (t.by_columns != 0 ? t.scale_bytes : 32)) + t.amax_bytes;
}
inline uint32_t ub_bytes(const Hif8Tiling& t) {
  return 2 * (t.wide_bytes + t.narrow_bytes + t.scale_bytes + t.partial_bytes) + (t.parts > 0 ? t.amax_bytes : 0);
}

// How a scale is indexed: slice * slice_stride + index * step, a step of 0 being one for all. No row scale: `given`
// false.
struct ScaleIndex {
  bool given = true;
  int64_t slice_stride = 0;
  int64_t step = 0;
};

inline EpilogueTiling epilogue_tiling(FloatType out, int64_t slices, int64_t rows, int64_t cols, const ScaleIndex& row,
                                      const ScaleIndex& column, bool has_bias, int cores) {
  EpilogueTiling t{};
  t.slices = static_cast<uint64_t>(slices);
  t.rows = static_cast<uint64_t>(rows);
  t.cols = static_cast<uint64_t>(cols);
  t.row_slice = static_cast<uint64_t>(row.slice_stride);
  t.row_step = static_cast<uint32_t>(row.step);
  t.column_slice = static_cast<uint64_t>(column.slice_stride);
  t.column_step = static_cast<uint32_t>(column.step);
  t.has_row = row.given;
  t.has_bias = has_bias;
  if (t.slices == 0 || t.rows == 0 || t.cols == 0) return t;
  constexpr uint64_t kMost = 8192;  // elements of a tile: 32 KB of sums
  const uint64_t all = static_cast<uint64_t>(cores);
  uint64_t width = 1024;
  while (width > 128 && t.slices * divide_up(t.rows, kMost / width) * divide_up(t.cols, width) < 2 * all) width /= 2;
  const uint64_t chunk = align_up(divide_up(t.cols, divide_up(t.cols, width)), kPairElements);
  t.chunks = static_cast<uint32_t>(divide_up(t.cols, chunk));
  t.chunk = static_cast<uint32_t>(t.chunks == 1 ? t.cols : chunk);
  const uint64_t pitch = align_up(t.chunk, kPairElements);
  const uint64_t share = divide_up(t.slices * t.rows * t.chunks, all);
  t.tile_rows = static_cast<uint32_t>(std::clamp<uint64_t>(std::min({t.rows, kMost / pitch, share}), 1, 4095));
  t.blocks = cores_for(t.slices * t.chunks * divide_up(t.rows, t.tile_rows), cores);
  t.acc_bytes = static_cast<uint32_t>(t.tile_rows * pitch * 4 + 256);
  t.out_bytes = static_cast<uint32_t>(t.tile_rows * pitch * bytes_of(out));
  t.row_scale_bytes = static_cast<uint32_t>(align_up(t.tile_rows * 4, 32));
  t.column_bytes = static_cast<uint32_t>(align_up(pitch, 128) * 4);
  return t;
}

inline uint32_t ub_bytes(const EpilogueTiling& t) {
  return 2 * (t.acc_bytes + t.row_scale_bytes + t.out_bytes) + (t.has_bias != 0 ? 2 : 1) * t.column_bytes;
}

}  // namespace npu_lp::ascend
