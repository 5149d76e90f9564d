// What MTE1 does: L1 -> L0A and L0B, straight or transposed, with scales beside them, and L1 -> bias table.
#include <cstdlib>

#include "formats/bits.h"
#include "twin/cube_detail.h"

namespace npu_lp::twin::cube {
namespace {

constexpr uint32_t kBlock = 32;
constexpr int64_t kL0Fractal = 512;
constexpr uint32_t kRowsPerFractal = 16;

// `count` columns of fractals, `pitch` bytes apart; the pitch may be negative.
Span columns_span(Space space, int64_t begin, int64_t len, uint32_t count, int64_t pitch) {
  const int64_t first = pitch < 0 ? begin + (count - 1) * pitch : begin;
  return {space, static_cast<uint64_t>(first), static_cast<uint64_t>(len), count,
          static_cast<uint64_t>(std::abs(pitch))};
}

// A transposed square has C0 rows and C0 columns: C0 / 16 fractals.
struct Square {
  Space to;
  int element_bits;
  uint32_t side;
};

// Bytes at `from` (rows of 32 bytes, one below the other) to the transposed ones at `to`, with their taint.
void transpose_square(Core& core, const Square& square, uint64_t to, uint64_t from) {
  const uint8_t* src = core.memory(Space::kL1) + from;
  const uint8_t* src_map = core.defined_map(Space::kL1) + from;
  uint8_t* dst = core.memory(square.to) + to;
  uint8_t* dst_map = core.defined_map(square.to) + to;
  const uint32_t side = square.side;
  if (square.element_bits == 4) {
    for (uint32_t row = 0; row < side; ++row) {
      for (uint32_t column = 0; column < side; column += 2) {  // the byte at (row, column / 2) of the result
        const uint32_t low = column * kBlock + row / 2;
        const uint32_t high = low + kBlock;
        const uint32_t shift = (row % 2) * 4;
        const uint32_t byte = row * kBlock + column / 2;
        dst[byte] = static_cast<uint8_t>((src[low] >> shift & 15u) | (src[high] >> shift & 15u) << 4);
        dst_map[byte] = src_map[low] & src_map[high];
      }
    }
    return;
  }
  const uint32_t bytes = square.element_bits / 8;
  for (uint32_t row = 0; row < side; ++row) {
    for (uint32_t column = 0; column < side; ++column) {
      const uint32_t at = row * kBlock + column * bytes;
      const uint32_t source = column * kBlock + row * bytes;
      std::memcpy(dst + at, src + source, bytes);
      std::memcpy(dst_map + at, src_map + source, bytes);
    }
  }
}

void check_data(Core& core, const Region& dst, const Region& src, int element_bits,
                const AscendC::LoadData2DParamsV2& data, Loc loc) {
  require_range(core, "LoadData", "mStep (16 rows)", data.mStep, 0, 255, loc);
  require_range(core, "LoadData", "kStep (32 bytes)", data.kStep, 0, 255, loc);
  require_aligned(core, "LoadData", "the source", src, kBlock, loc);
  require_aligned(core, "LoadData", "the destination", dst, kL0Fractal, loc);
  const uint32_t unit = 256 / element_bits / kRowsPerFractal;  // fractals of a square
  if (data.ifTranspose) {
    require(core, data.mStep % unit == 0, Check::kParameter, loc, "LoadData: a transposed load of ", element_bits,
            "-bit elements moves whole squares, mStep = ", data.mStep, " must be a multiple of ", unit);
  }
  // Columns of one call that overlap in L0: which of them stays is not specified.
  const uint32_t columns = data.ifTranspose ? data.mStep / unit : data.kStep;
  const uint32_t column = data.ifTranspose ? data.kStep * unit : data.mStep;
  require(core, columns <= 1 || data.dstStride >= column, Check::kParameter, loc,
          "LoadData: dstStride = ", data.dstStride, " fractals, but each of the ", columns, " columns written has ",
          column, ": they overlap. Use a larger dstStride, or one call a column with PipeBarrier<PIPE_MTE1>() between");
}

}  // namespace

void load(Region dst, Region src, const Region* scale, int element_bits, const AscendC::LoadData2DParamsV2& data,
          const AscendC::LoadData2DMxParams& mx, Loc loc) {
  Core& core = this_core();
  require_cube_core(core, "LoadData", loc);
  require_space(core, "LoadData", "the source", src, src.space == Space::kL1, "L1 (TPosition A1, B1)", loc);
  require_space(core, "LoadData", "the destination", dst, dst.space == Space::kL0A || dst.space == Space::kL0B,
                "L0A or L0B (TPosition A2, B2)", loc);
  check_data(core, dst, src, element_bits, data, loc);

  const uint32_t side = 256 / element_bits;
  const uint32_t unit = side / kRowsPerFractal;
  const bool has_data = data.mStep > 0 && data.kStep > 0;
  const int64_t src_pitch = data.srcStride * kL0Fractal;
  const int64_t dst_pitch = data.dstStride * kL0Fractal;
  const int64_t from =
      static_cast<int64_t>(src.begin) + data.kStartPosition * std::abs(src_pitch) + data.mStartPosition * kL0Fractal;
  std::vector<Span> reads, writes;
  if (has_data) {
    reads.push_back(columns_span(Space::kL1, from, data.mStep * kL0Fractal, data.kStep, src_pitch));
    writes.push_back(
        data.ifTranspose
            ? columns_span(dst.space, dst.begin, data.kStep * unit * kL0Fractal, data.mStep / unit, dst_pitch)
            : columns_span(dst.space, dst.begin, data.mStep * kL0Fractal, data.kStep, dst_pitch));
    check_region(core, "LoadData", "the source", src, reads.back(), loc);
    check_region(core, "LoadData", "the destination", dst, writes.back(), loc);
  }

  const Space mx_space = dst.space == Space::kL0A ? Space::kL0AMX : Space::kL0BMX;
  const bool has_scale = scale != nullptr && mx.xStep > 0 && mx.yStep > 0;
  const uint64_t mx_len = uint64_t{mx.yStep} * kBlock;
  Span mx_read = {}, mx_write = {};
  if (has_scale) {
    require_space(core, "LoadData", "the scale tensor", *scale, scale->space == Space::kL1, "L1 (TPosition A1, B1)",
                  loc);
    require_aligned(core, "LoadData", "the scale tensor", *scale, kBlock, loc);
    require(core, mx.xStep <= 1 || mx.dstStride >= mx.yStep, Check::kParameter, loc,
            "LoadData: the scales' dstStride = ", mx.dstStride, " is less than yStep = ", +mx.yStep,
            ": rows of scales overlap");
    const uint64_t start = uint64_t{mx.xStartPosition} * mx.srcStride + mx.yStartPosition;
    mx_read = {Space::kL1, scale->begin + start * kBlock, mx_len, mx.xStep, uint64_t{mx.srcStride} * kBlock};
    mx_write = {mx_space, dst.begin / 16, mx_len, mx.xStep, uint64_t{mx.dstStride} * kBlock};
    check_region(core, "LoadData", "the scale tensor", *scale, mx_read, loc);
    require(core, end_of(mx_write) <= capacity(mx_space), Check::kBounds, loc, "LoadData: scales go to bytes ",
            mx_write.begin, " to ", end_of(mx_write), " of ", space_name(mx_space),
            " (the L0 address / 16), which has ", capacity(mx_space));
    reads.push_back(mx_read);
    writes.push_back(mx_write);
  }
  if (!has_data && !has_scale) return;

  Record record;
  record.op = Op::kLoad;
  record.pipe = Pipe::kMTE1;
  record.bytes = data.mStep * data.kStep * kL0Fractal;
  record.scale_bytes = has_scale ? static_cast<uint32_t>(mx.xStep * mx_len) : 0;
  record.loc = loc;
  core.issue(record, reads, writes,
             [=, square = Square{dst.space, element_bits, side}, transpose = data.ifTranspose, rows = data.mStep,
              columns = has_data ? data.kStep : uint16_t{0}](Core& core) {
               for (const Span& span : writes) core.define(span, false);
               for (uint32_t column = 0; column < columns; ++column) {
                 const int64_t source = from + column * src_pitch;
                 if (!transpose) {
                   copy_tainted(core, dst.space, dst.begin + column * dst_pitch, Space::kL1, source, rows * kL0Fractal);
                   continue;
                 }
                 for (uint32_t group = 0; group < rows / unit; ++group) {
                   transpose_square(core, square, dst.begin + group * dst_pitch + column * unit * kL0Fractal,
                                    source + group * unit * kL0Fractal);
                 }
               }
               for (uint32_t row = 0; row < mx_write.count && has_scale; ++row) {
                 copy_tainted(core, mx_space, mx_write.begin + row * mx_write.pitch, Space::kL1,
                              mx_read.begin + row * mx_read.pitch, mx_len);
               }
             });
}

void load_bias(Region dst, Elem dst_elem, Region src, Elem src_elem, uint32_t count, uint32_t blocks, uint32_t src_gap,
               uint32_t dst_gap, Loc loc) {
  const char* api = "DataCopy to the bias table";
  Core& core = this_core();
  require_cube_core(core, api, loc);
  require_space(core, api, "the source", src, src.space == Space::kL1, "L1 (TPosition A1, B1, C1)", loc);
  require_space(core, api, "the destination", dst, dst.space == Space::kBT,
                "the bias table (TPosition C2): the twin models no other copy between local tensors", loc);
  require_aligned(core, api, "the source", src, kBlock, loc);
  require_aligned(core, api, "the destination", dst, 64, loc);
  require_range(core, api, "blockCount", count, 0, 4095, loc);
  require(core, bits_of(src_elem) != 32 || blocks % 2 == 0, Check::kParameter, loc, api, ": blockLen = ", blocks,
          " blocks of 32 bytes; it must be even for 4-byte elements");
  if (count == 0 || blocks == 0) return;

  const uint32_t widened = bits_of(dst_elem) / bits_of(src_elem);
  const uint64_t bytes = uint64_t{blocks} * kBlock;
  const Span read = {Space::kL1, src.begin, bytes, count, bytes + src_gap * kBlock};
  const Span write = {Space::kBT, dst.begin, bytes * widened, count, bytes * widened + dst_gap * kBlock};
  check_region(core, api, "the source", src, read, loc);
  check_region(core, api, "the destination", dst, write, loc);
  Record record;
  record.op = Op::kLoadBias;
  record.pipe = Pipe::kMTE1;
  record.bytes = static_cast<uint32_t>(write.len * count);
  record.loc = loc;
  core.issue(record, {read}, {write}, [=](Core& core) {
    core.define(write, false);
    for (uint32_t i = 0; i < count; ++i) {
      const uint64_t from = read.begin + i * read.pitch;
      const uint64_t to = write.begin + i * write.pitch;
      if (widened == 1) {
        copy_tainted(core, Space::kBT, to, Space::kL1, from, bytes);
        continue;
      }
      for (uint64_t j = 0; j < bytes / 2; ++j) {
        uint16_t code;
        std::memcpy(&code, core.memory(Space::kL1) + from + 2 * j, 2);
        const float value = src_elem == Elem::kHalf ? widen_fp16(code) : widen_bf16(code);
        std::memcpy(core.memory(Space::kBT) + to + 4 * j, &value, 4);
        const bool defined = all_defined(core.defined_map(Space::kL1) + from + 2 * j, 2);
        std::memset(core.defined_map(Space::kBT) + to + 4 * j, defined, 4);
      }
    }
  });
}

}  // namespace npu_lp::twin::cube
