// Tiling and table of mx_to_block. Plain C++, like quant_tiling.h.
#pragma once

#include <cmath>

#include "ascend/tiling/quant_tiling.h"

namespace npu_lp::ascend {

inline uint32_t ub_bytes(const ToBlockTiling& t) {
  return 2 * (t.code_bytes + t.out_bytes + 2 * t.row_scale_bytes + t.column_scale_bytes) + kToBlockWorkBytes +
         kToBlockTableBytes + kToBlockCounters * 4;
}

inline ToBlockTiling mx_to_block_tiling(int64_t slices, int64_t rows, int64_t cols, int cores) {
  ToBlockTiling t{};
  if (rows % kPairElements == 0) {  // slices of whole strips are one long matrix
    rows *= slices;
    slices = 1;
  }
  t.slices = static_cast<uint64_t>(slices);
  t.rows = static_cast<uint64_t>(rows);
  t.cols = static_cast<uint64_t>(cols);
  t.strips = divide_up(t.rows, kPairElements);
  const uint64_t all = static_cast<uint64_t>(cores), strips = t.slices * t.strips;
  if (strips == 0 || cols == 0) return t;
  // The widest chunk that leaves every core two tiles or more.
  uint64_t width = kToBlockColumns;
  while (width > 128 && strips * divide_up(t.cols, width) < 2 * all) width /= 2;
  if (strips * divide_up(t.cols, width) < all) width = kPairElements;
  const uint64_t chunk = align_up(divide_up(t.cols, divide_up(t.cols, width)), kPairElements);
  t.chunks = static_cast<uint32_t>(divide_up(t.cols, chunk));
  t.chunk = static_cast<uint32_t>(t.chunks == 1 ? t.cols : chunk);
  t.blocks = cores_for(strips * t.chunks, cores);
  const uint64_t pitch = align_up(t.chunk, kPairElements);
  t.code_bytes = static_cast<uint32_t>(kPairElements * pitch / 2 + 128);  // the last codes of the last row, read whole
  t.out_bytes = static_cast<uint32_t>(kPairElements * pitch);
  t.row_scale_bytes = kPairElements * 32;
  t.column_scale_bytes = static_cast<uint32_t>(align_up(pitch, 128) * 2);
  return t;
}

// semantics.md section 4. `from` is FP4; its codes 0 to 7 are its magnitudes.
inline ToBlockTable mx_to_block_table(Format from, Format to) {
  ToBlockTable table{};
  table.offset = static_cast<uint32_t>(info(to).emax - info(from).emax);
  const auto encoded = [&](float value) {
    return with_codec(to, [&](auto codec) { return static_cast<uint64_t>(decltype(codec)::encode(value)); });
  };
  const auto shifted = [&](uint32_t of_class, uint32_t magnitude) {
    return std::ldexp(decode(from, magnitude), static_cast<int>(table.offset) - static_cast<int>(of_class));
  };
  while (encoded(shifted(table.zero, 7)) != 0) ++table.zero;
  table.registers = table.zero + 2 < 32 ? 1 : 2;
  for (uint32_t of_class = 0; of_class <= table.zero + 2; ++of_class) {
    const bool is_second = table.registers == 2 && of_class > 30;
    uint64_t& entry = table.entries[is_second ? 32 + of_class % 32 : of_class];
    for (uint32_t magnitude = 0; magnitude < 8; ++magnitude) {
      const float value = shifted(of_class, magnitude);
      const uint64_t code = of_class > table.zero ? 0 : encoded(value);
      const bool changed =
          of_class > table.zero ? of_class == table.zero + 2 : decode(to, static_cast<uint32_t>(code)) != value;
      entry |= (code | (changed ? 0x80u : 0u)) << (8 * magnitude);
    }
  }
  return table;
}

}  // namespace npu_lp::ascend
