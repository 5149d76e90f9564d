// What writes L1, on MTE2: copies from GM with a change of layout, and constants. Plain copies are in data_copy.cpp.
#include <algorithm>

#include "twin/cube_detail.h"

namespace npu_lp::twin::cube {
namespace {

constexpr uint32_t kBlock = 32;
constexpr uint64_t kMaxPitch = (1ull << 40) - 1;

void check_nz(Core& core, const NzCopy& copy, uint32_t element, Loc loc) {
  const char* api = copy.api;
  // The documented limit of dValue is 65535 for Nd2Nz and 2^21 - 1 for Dn2Nz. For Nd2Nz the same page limits srcDValue
  // to 65535 too, which belongs to the 16-bit field of older chips; here the field has 64 bits, as for Dn2Nz.
  const uint32_t max_columns = copy.transposed ? (1u << 21) - 1 : 65535u;
  require_range(core, api, copy.transposed ? "dnNum" : "ndNum", copy.matrices, 0, 4095, loc);
  require_range(core, api, "nValue", copy.rows, 0, 16384, loc);
  require_range(core, api, "dValue", copy.columns, 0, max_columns, loc);
  require_range(core, api, "srcDValue (elements from row to row)", copy.src_pitch, 1, kMaxPitch, loc);
  require_range(core, api, "dstNzC0Stride (32-byte blocks from column to column)", copy.c0_stride, 1, 16384, loc);
  require_range(core, api, "dstNzNStride (32-byte blocks from row to row)", copy.row_stride, 1, 16384, loc);
  if (copy.matrices > 1) {
    const uint64_t bytes = static_cast<uint64_t>(copy.matrix_stride) * element;
    require(core, bytes % kBlock == 0 && bytes / kBlock <= 65535, Check::kParameter, loc, api,
            ": dstNzMatrixStride = ", copy.matrix_stride, " elements is ", bytes,
            " bytes; it must be a multiple of 32, and at most 65535 * 32");
  }
}

void copy_matrix(uint8_t* dst, const uint8_t* src, uint32_t element, const NzCopy& copy) {
  const uint64_t pitch = copy.src_pitch * element;
  const uint32_t per_block = kBlock / element;
  for (uint32_t first = 0; first < copy.columns; first += per_block) {
    const uint32_t columns = std::min(per_block, copy.columns - first);
    uint8_t* block = dst + static_cast<uint64_t>(first / per_block) * copy.c0_stride * kBlock;
    for (uint32_t row = 0; row < copy.rows; ++row, block += static_cast<uint64_t>(copy.row_stride) * kBlock) {
      if (!copy.transposed) {
        std::memcpy(block, src + row * pitch + static_cast<uint64_t>(first) * element, columns * element);
      } else {
        for (uint32_t i = 0; i < columns; ++i) {
          std::memcpy(block + i * element, src + (first + i) * pitch + static_cast<uint64_t>(row) * element, element);
        }
      }
      std::memset(block + columns * element, 0, kBlock - columns * element);  // the hardware fills the tail with zeros
    }
  }
}

}  // namespace

void copy_to_nz(Region dst, Region src, uint32_t element, const NzCopy& copy, Loc loc) {
  Core& core = this_core();
  require_cube_core(core, copy.api, loc);
  require_space(core, copy.api, "the destination", dst, dst.space == Space::kL1, "L1 (TPosition A1, B1)", loc);
  require_aligned(core, copy.api, "the destination", dst, kBlock, loc);
  check_nz(core, copy, element, loc);
  if (copy.matrices == 0 || copy.rows == 0 || copy.columns == 0) return;

  const uint32_t blocks = static_cast<uint32_t>(align_up(copy.columns * element, kBlock) / kBlock);
  const uint32_t src_rows = copy.transposed ? copy.columns : copy.rows;
  const uint32_t src_row_bytes = (copy.transposed ? copy.rows : copy.columns) * element;
  std::vector<Span> reads, writes;
  for (uint32_t i = 0; i < copy.matrices; ++i) {
    const uint64_t from = src.begin + i * copy.src_matrix_stride * element;
    reads.push_back({Space::kGM, from, src_row_bytes, src_rows, copy.src_pitch * element});
    const uint64_t to = dst.begin + static_cast<uint64_t>(i) * copy.matrix_stride * element;
    const uint64_t column = static_cast<uint64_t>(copy.c0_stride) * kBlock;
    if (copy.row_stride == 1) {
      writes.push_back({Space::kL1, to, static_cast<uint64_t>(copy.rows) * kBlock, blocks, column});
    } else {
      for (uint32_t block = 0; block < blocks; ++block) {
        writes.push_back({Space::kL1, to + block * column, kBlock, copy.rows, uint64_t{copy.row_stride} * kBlock});
      }
    }
  }
  for (const Span& span : reads) check_region(core, copy.api, "the source", src, span, loc);
  for (const Span& span : writes) check_region(core, copy.api, "the destination", dst, span, loc);

  Record record;
  record.op = copy.transposed ? Op::kDn2Nz : Op::kNd2Nz;
  record.pipe = Pipe::kMTE2;
  record.gm = src.begin;
  record.rows = copy.matrices * src_rows;
  record.row_bytes = src_row_bytes;
  record.pitch = copy.src_pitch * element;
  record.bytes = copy.matrices * blocks * copy.rows * kBlock;
  record.loc = loc;
  core.issue(record, reads, writes, [reads, writes, dst, element, copy](Core& core) {
    for (uint32_t i = 0; i < copy.matrices; ++i) {
      copy_matrix(core.memory(Space::kL1) + dst.begin + static_cast<uint64_t>(i) * copy.matrix_stride * element,
                  reinterpret_cast<const uint8_t*>(reads[i].begin), element, copy);
    }
    for (const Span& span : writes) core.define(span);
  });
}

void fill(Region dst, uint32_t repeat, uint32_t blocks, uint32_t gap, uint32_t value, uint32_t element, Loc loc) {
  Core& core = this_core();
  require_cube_core(core, "Fill", loc);
  require_space(core, "Fill", "the destination", dst, dst.space == Space::kL1, "L1 (TPosition A1, B1)", loc);
  require_aligned(core, "Fill", "the destination", dst, kBlock, loc);
  require_range(core, "Fill", "repeatTimes", repeat, 0, 32767, loc);
  require_range(core, "Fill", "blockNum", blocks, 0, 32767, loc);
  require_range(core, "Fill", "dstGap", gap, 0, 32767, loc);
  if (repeat == 0 || blocks == 0) return;

  const Span write = {Space::kL1, dst.begin, uint64_t{blocks} * kBlock, repeat, uint64_t{blocks + gap} * kBlock};
  check_region(core, "Fill", "the destination", dst, write, loc);
  Record record;
  record.op = Op::kFill;
  record.pipe = Pipe::kMTE2;
  record.rows = repeat;
  record.row_bytes = blocks * kBlock;
  record.bytes = repeat * blocks * kBlock;
  record.loc = loc;
  core.issue(record, {}, {write}, [write, value, element](Core& core) {
    for (uint32_t i = 0; i < write.count; ++i) {
      uint8_t* to = core.memory(Space::kL1) + write.begin + i * write.pitch;
      for (uint64_t byte = 0; byte < write.len; byte += element) std::memcpy(to + byte, &value, element);
    }
    core.define(write);
  });
}

}  // namespace npu_lp::twin::cube
