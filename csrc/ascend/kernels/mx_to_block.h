// mx_to_block: FP4 with a scale for each 32 elements of a row becomes FP8 with a scale for each tile of 32x32. There
// are few things that can become of a code (ToBlockTable), so codes are looked up, 256 at once, and the changed ones
// counted.
#pragma once

#include "ascend/kernels/row_blocks.h"
#include "ascend/kernels/vector_copy.h"

namespace npu_lp::ascend {

constexpr uint32_t kBytes = 256;     // of a register
constexpr uint32_t kRowBlocks = 32;  // of a row of a tile; a register has their bytes for 8 rows
constexpr uint32_t kRowsAtOnce = 8;

struct ToBlockConstants {
  Reg::RegTensor<uint8_t> magnitude, code, sign, table, table2;
  Reg::RegTensor<int8_t> to_magnitude, to_sign;  // shifts, of the even and the odd code of a byte
};

template <uint32_t REGISTERS>
__simd_callee__ inline void load_constants(ToBlockConstants& c, __ubuf__ uint8_t* table) {
  Reg::Duplicate(c.magnitude, static_cast<uint8_t>(0x07));
  Reg::Duplicate(c.code, static_cast<uint8_t>(0x7F));
  Reg::Duplicate((Reg::RegTensor<uint16_t>&)c.to_magnitude, static_cast<uint16_t>(0x0400));
  Reg::Duplicate((Reg::RegTensor<uint16_t>&)c.to_sign, static_cast<uint16_t>(0x0004));
  Reg::LoadAlign(c.table, table);
  if constexpr (REGISTERS == 2) Reg::LoadAlign(c.table2, table + kBytes);
}

// The scale bytes of the 32 tiles of `rows` rows, eight times over; and a word of class for each block of each row.
template <uint32_t REGISTERS>
__simd_callee__ inline void classify(Reg::RegTensor<uint8_t>& tile, __ubuf__ uint8_t* scale, __ubuf__ uint8_t* classes,
                                     __ubuf__ uint8_t* signs, uint16_t rows, uint32_t offset, uint32_t zero,
                                     uint32_t nan_above, Reg::MaskReg& all) {
  Reg::RegTensor<uint8_t> largest, of_nan, limit, first, sign, row, second;
  Reg::MaskReg nan;
  Reg::Duplicate(largest, static_cast<uint8_t>(0));
  for (uint16_t i = 0; i < rows; ++i) {
    Reg::LoadAlign<uint8_t, Reg::LoadDist::DIST_BLK>(row, scale + i * kRowBlocks);
    Reg::Max(largest, largest, row, all);
  }
  Reg::Compares<uint8_t, CMPMODE::GT>(nan, largest, static_cast<uint8_t>(nan_above), all);
  Reg::Maxs(largest, largest, static_cast<uint8_t>(offset), all);
  Reg::Duplicate(tile, static_cast<uint8_t>(offset));
  Reg::Sub(tile, largest, tile, all);
  Reg::Duplicate(of_nan, static_cast<uint8_t>(255));
  Reg::Select(tile, of_nan, tile, nan);
  // A tile of NaN has two classes of its own, and codes without a sign.
  Reg::Duplicate(limit, static_cast<uint8_t>(zero));
  Reg::Duplicate(of_nan, static_cast<uint8_t>(1));
  Reg::Select(limit, of_nan, limit, nan);
  Reg::Duplicate(first, static_cast<uint8_t>(0));
  Reg::Duplicate(of_nan, static_cast<uint8_t>(zero + 1));
  Reg::Select(first, of_nan, first, nan);
  Reg::Duplicate(sign, static_cast<uint8_t>(0x80));
  Reg::Duplicate(of_nan, static_cast<uint8_t>(0));
  Reg::Select(sign, of_nan, sign, nan);
  Reg::StoreAlign<uint8_t, Reg::StoreDist::DIST_INTLV_B8>(signs, sign, sign, all);
  const uint16_t steps = static_cast<uint16_t>((rows + kRowsAtOnce - 1) / kRowsAtOnce);
  for (uint16_t i = 0; i < steps; ++i) {
    Reg::LoadAlign(row, scale + i * kBytes);
    Reg::Sub(row, largest, row, all);
    Reg::Min(row, row, limit, all);
    Reg::Add(row, row, first, all);
    if constexpr (REGISTERS == 2) {
      Reg::Maxs(second, row, static_cast<uint8_t>(30), all);
      Reg::ShiftLefts(second, second, static_cast<int16_t>(3), all);  // the place of class 32 is 0 again
      Reg::StoreAlign<uint8_t, Reg::StoreDist::DIST_INTLV_B8>(classes + kToBlockClassBytes + i * 2 * kBytes, second,
                                                              second, all);
      Reg::Mins(row, row, static_cast<uint8_t>(31), all);
    }
    Reg::ShiftLefts(row, row, static_cast<int16_t>(3), all);
    Reg::StoreAlign<uint8_t, Reg::StoreDist::DIST_INTLV_B8>(classes + i * 2 * kBytes, row, row, all);
  }
}

// `rows` rows of 256 columns, of which `stored` is set. `changed` counts what has another value than before.
template <uint32_t REGISTERS>
__simd_callee__ inline void look_up(__ubuf__ uint8_t* codes, __ubuf__ uint8_t* y, __ubuf__ uint16_t* classes,
                                    __ubuf__ uint16_t* signs, Reg::RegTensor<uint8_t>& changed, uint32_t pitch,
                                    uint16_t rows, ToBlockConstants& c, Reg::MaskReg& all, Reg::MaskReg& stored) {
  Reg::RegTensor<uint16_t> mask, word, word2;
  Reg::RegTensor<uint8_t> pair, index, index2, found, found2;
  Reg::LoadAlign<uint16_t, Reg::LoadDist::DIST_E2B_B16>(mask, signs);
  for (uint16_t row = 0; row < rows; ++row) {
    Reg::LoadAlign<uint8_t, Reg::LoadDist::DIST_US_B8>(pair, codes + row * (pitch / 2));
    Reg::LoadAlign<uint16_t, Reg::LoadDist::DIST_E2B_B16>(word, classes + row * kRowBlocks);
    Reg::ShiftRight(index, pair, c.to_magnitude, all);
    Reg::And(index, index, c.magnitude, all);
    if constexpr (REGISTERS == 2) {
      Reg::LoadAlign<uint16_t, Reg::LoadDist::DIST_E2B_B16>(word2, classes + kToBlockClassBytes / 2 + row * kRowBlocks);
      Reg::Or(index2, index, (Reg::RegTensor<uint8_t>&)word2, all);
      Reg::Gather(found2, c.table2, index2);
    }
    Reg::Or(index, index, (Reg::RegTensor<uint8_t>&)word, all);
    Reg::Gather(found, c.table, index);
    if constexpr (REGISTERS == 2) Reg::Or(found, found, found2, all);
    Reg::ShiftLeft(pair, pair, c.to_sign, all);
    Reg::And(pair, pair, (Reg::RegTensor<uint8_t>&)mask, all);
    Reg::ShiftRights(index, found, static_cast<int16_t>(7), stored);
    Reg::Add(changed, changed, index, all);
    Reg::And(found, found, c.code, all);
    Reg::Or(found, found, pair, all);
    Reg::StoreAlign(y + row * pitch, found, stored);
  }
}

// Adds the 256 counts of `changed` to 64 of 32 bits.
__simd_callee__ inline void add_counts(Reg::RegTensor<uint32_t>& total, Reg::RegTensor<uint8_t>& changed,
                                       Reg::MaskReg& all) {
  Reg::RegTensor<uint16_t> low_byte, pairs, high;
  Reg::RegTensor<uint32_t> low_half, fours, upper;
  Reg::Duplicate(low_byte, static_cast<uint16_t>(0xFF));
  Reg::Duplicate(low_half, static_cast<uint32_t>(0xFFFF));
  Reg::And(pairs, (Reg::RegTensor<uint16_t>&)changed, low_byte, all);
  Reg::ShiftRights(high, (Reg::RegTensor<uint16_t>&)changed, static_cast<int16_t>(8), all);
  Reg::Add(pairs, pairs, high, all);
  Reg::And(fours, (Reg::RegTensor<uint32_t>&)pairs, low_half, all);
  Reg::ShiftRights(upper, (Reg::RegTensor<uint32_t>&)pairs, static_cast<int16_t>(16), all);
  Reg::Add(fours, fours, upper, all);
  Reg::Add(total, total, fours, all);
}

// A tile of `first` and, below them, `second` rows. `work` is laid out as quant_params.h says.
template <uint32_t REGISTERS>
__simd_vf__ inline void convert_tiles(__ubuf__ uint8_t* codes, __ubuf__ uint8_t* scale, __ubuf__ uint8_t* y,
                                      __ubuf__ uint8_t* scale_row, __ubuf__ uint8_t* scale_col, __ubuf__ uint8_t* table,
                                      __ubuf__ uint8_t* work, __ubuf__ uint32_t* counts, uint32_t cols, uint32_t pitch,
                                      uint16_t first, uint16_t second, uint32_t offset, uint32_t zero,
                                      uint32_t nan_above) {
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  constexpr uint32_t kLower = kBlockElements * kRowBlocks;  // bytes of the scales of the rows above
  __ubuf__ uint8_t* signs = work + 2 * kToBlockClassBytes;
  __ubuf__ uint8_t* words = signs + 4 * kBytes;
  Reg::RegTensor<uint8_t> tile, tile2;
  classify<REGISTERS>(tile, scale, work, signs, first, offset, zero, nan_above, all);
  classify<REGISTERS>(tile2, scale + kLower, work + 2 * kLower, signs + 2 * kBytes, second, offset, zero, nan_above,
                      all);

  for (uint16_t i = 0; i < kBlockElements / kRowsAtOnce; ++i) {
    Reg::StoreAlign(scale_row + i * kBytes, tile, all);
    Reg::StoreAlign(scale_row + kLower + i * kBytes, tile2, all);
  }
  // Of each column of tiles a word, the bytes of both; each word twice, since a load spreads it over 16 columns.
  Reg::RegTensor<uint8_t> both, rest;
  Reg::Interleave(both, rest, tile, tile2);
  Reg::StoreAlign<uint16_t, Reg::StoreDist::DIST_INTLV_B16>((__ubuf__ uint16_t*)words, (Reg::RegTensor<uint16_t>&)both,
                                                            (Reg::RegTensor<uint16_t>&)both, all);
  wait_for_stores();

  Reg::RegTensor<uint16_t> spread;
  const uint16_t scale_steps = static_cast<uint16_t>((pitch + kGroup - 1) / kGroup);
  for (uint16_t i = 0; i < scale_steps; ++i) {
    Reg::LoadAlign<uint16_t, Reg::LoadDist::DIST_E2B_B16>(spread, (__ubuf__ uint16_t*)words + i * 8);
    Reg::StoreAlign((__ubuf__ uint16_t*)scale_col + i * kGroup, spread, all);
  }
  ToBlockConstants constants;
  load_constants<REGISTERS>(constants, table);
  Reg::RegTensor<uint32_t> total;
  Reg::RegTensor<uint8_t> changed;
  Reg::LoadAlign(total, counts);
  uint32_t left = cols;
  const uint16_t groups = static_cast<uint16_t>((cols + kBytes - 1) / kBytes);
  for (uint16_t group = 0; group < groups; ++group) {
    Reg::MaskReg stored = Reg::UpdateMask<uint8_t>(left);
    __ubuf__ uint8_t* from = codes + group * (kBytes / 2);
    __ubuf__ uint8_t* to = y + group * kBytes;
    __ubuf__ uint16_t* word = (__ubuf__ uint16_t*)work + group * 8;
    __ubuf__ uint16_t* sign = (__ubuf__ uint16_t*)signs + group * 8;
    Reg::Duplicate(changed, static_cast<uint8_t>(0));  // at most 64
    look_up<REGISTERS>(from, to, word, sign, changed, pitch, first, constants, all, stored);
    look_up<REGISTERS>(from + kBlockElements * (pitch / 2), to + kBlockElements * pitch, word + kLower, sign + kBytes,
                       changed, pitch, second, constants, all, stored);
    add_counts(total, changed, all);
  }
  Reg::StoreAlign(counts, total, all);
}

template <uint32_t REGISTERS>
class MxToBlock {
 public:
  __aicore__ inline MxToBlock(AscendC::TPipe& pipe, GM_ADDR codes, GM_ADDR scale, GM_ADDR y, GM_ADDR scale_row,
                              GM_ADDR scale_col, GM_ADDR changed, const ToBlockTiling& tiling,
                              const ToBlockTable& table, uint32_t nan_above)
      : tiling_(tiling),
        offset_(table.offset),
        zero_(table.zero),
        nan_above_(nan_above),
        scale_pitch_((tiling.cols + kTail - 1) / kTail * 2) {
    codes_.SetGlobalBuffer(codes);
    scale_.SetGlobalBuffer(scale);
    y_.SetGlobalBuffer(y);
    scale_row_.SetGlobalBuffer(scale_row);
    scale_col_.SetGlobalBuffer(scale_col);
    changed_.SetGlobalBuffer(changed);
    pipe.InitBuffer(codes_in_, 2, tiling.code_bytes);
    pipe.InitBuffer(scale_in_, 2, tiling.row_scale_bytes);
    pipe.InitBuffer(out_, 2, tiling.out_bytes);
    pipe.InitBuffer(scale_row_out_, 2, tiling.row_scale_bytes);
    pipe.InitBuffer(scale_col_out_, 2, tiling.column_scale_bytes);
    pipe.InitBuffer(counts_out_, 1, kToBlockCounters * 4);
    pipe.InitBuffer(table_, kToBlockTableBytes);
    pipe.InitBuffer(work_, kToBlockWorkBytes);

    counts_ = counts_out_.template AllocTensor<uint32_t>();
    for (uint32_t i = 0; i < kToBlockCounters; ++i) counts_.SetValue(i, 0u);
    LocalTensor<uint64_t> entries = table_.template Get<uint64_t>();
    for (uint32_t i = 0; i < 32 * REGISTERS; ++i) entries.SetValue(i, table.entries[i]);
    const auto written = static_cast<AscendC::TEventID>(pipe.FetchEventID(AscendC::HardEvent::S_V));
    AscendC::SetFlag<AscendC::HardEvent::S_V>(written);
    AscendC::WaitFlag<AscendC::HardEvent::S_V>(written);
  }

  __aicore__ inline void run() {
    const Share share = share_of(tiling_.slices * tiling_.strips * tiling_.chunks);
    for (uint64_t unit = share.begin; unit < share.end; ++unit) {
      const uint64_t strip = unit / tiling_.chunks;
      tile(strip / tiling_.strips, strip % tiling_.strips, unit % tiling_.chunks * tiling_.chunk);
    }
    counts_out_.EnQue(counts_);
    LocalTensor<uint8_t> counts = counts_out_.template DeQue<uint8_t>();
    copy_out(changed_[static_cast<uint64_t>(AscendC::GetBlockIdx()) * (kToBlockCounters * 4)], counts, 1,
             kToBlockCounters * 4, 0, 0);
    counts_out_.FreeTensor(counts);
  }

 private:
  __aicore__ inline void tile(uint64_t slice, uint64_t strip, uint64_t column) {
    const uint64_t left = tiling_.cols - column, down = tiling_.rows - strip * kTail;
    const uint32_t cols = left < tiling_.chunk ? static_cast<uint32_t>(left) : tiling_.chunk;
    const uint32_t rows = down < kTail ? static_cast<uint32_t>(down) : kTail, pitch = round_up(cols, kTail);
    const uint32_t upper = rows < kBlockElements ? rows : kBlockElements;
    const uint64_t row = slice * tiling_.rows + strip * kTail, first = row * tiling_.cols + column;
    const uint64_t first_scale = row * scale_pitch_ + column / kBlockElements;
    const uint32_t row_blocks = (cols + kBlockElements - 1) / kBlockElements;

    LocalTensor<uint8_t> codes = codes_in_.template AllocTensor<uint8_t>();
    copy_in(codes, codes_[first / 2], rows, cols / 2, tiling_.cols / 2, pitch / 2);
    codes_in_.EnQue(codes);
    LocalTensor<uint8_t> scale = scale_in_.template AllocTensor<uint8_t>();
    // Zeros for the blocks that the row does not have: the pad byte of an odd pair must come out as 0.
    AscendC::DataCopyPad(scale, scale_[first_scale],
                         DataCopyExtParams{static_cast<uint16_t>(rows), row_blocks,
                                           static_cast<int64_t>(scale_pitch_ - row_blocks), 0, 0},
                         DataCopyPadExtParams<uint8_t>{true, 0, static_cast<uint8_t>(kRowBlocks - row_blocks), 0});
    scale_in_.EnQue(scale);

    codes = codes_in_.template DeQue<uint8_t>();
    scale = scale_in_.template DeQue<uint8_t>();
    LocalTensor<uint8_t> y = out_.template AllocTensor<uint8_t>();
    LocalTensor<uint8_t> scale_row = scale_row_out_.template AllocTensor<uint8_t>();
    LocalTensor<uint8_t> scale_col = scale_col_out_.template AllocTensor<uint8_t>();
    LocalTensor<uint8_t> table = table_.template Get<uint8_t>(), work = work_.template Get<uint8_t>();
    asc_vf_call<convert_tiles<REGISTERS>>(
        (__ubuf__ uint8_t*)codes.GetPhyAddr(), (__ubuf__ uint8_t*)scale.GetPhyAddr(), (__ubuf__ uint8_t*)y.GetPhyAddr(),
        (__ubuf__ uint8_t*)scale_row.GetPhyAddr(), (__ubuf__ uint8_t*)scale_col.GetPhyAddr(),
        (__ubuf__ uint8_t*)table.GetPhyAddr(), (__ubuf__ uint8_t*)work.GetPhyAddr(),
        (__ubuf__ uint32_t*)counts_.GetPhyAddr(), cols, pitch, static_cast<uint16_t>(upper),
        static_cast<uint16_t>(rows - upper), offset_, zero_, nan_above_);
    codes_in_.FreeTensor(codes);
    scale_in_.FreeTensor(scale);
    out_.EnQue(y);
    scale_row_out_.EnQue(scale_row);
    scale_col_out_.EnQue(scale_col);

    y = out_.template DeQue<uint8_t>();
    copy_out(y_[first], y, rows, cols, tiling_.cols, pitch);
    out_.FreeTensor(y);
    scale_row = scale_row_out_.template DeQue<uint8_t>();
    copy_out(scale_row_[first_scale], scale_row, rows, pitch / kBlockElements, scale_pitch_, kRowBlocks);
    scale_row_out_.FreeTensor(scale_row);
    scale_col = scale_col_out_.template DeQue<uint8_t>();
    copy_out(scale_col_[((slice * tiling_.strips + strip) * tiling_.cols + column) * 2], scale_col, 1, cols * 2, 0, 0);
    scale_col_out_.FreeTensor(scale_col);
  }

  ToBlockTiling tiling_;
  uint32_t offset_, zero_, nan_above_;
  uint64_t scale_pitch_;
  GlobalTensor<uint8_t> codes_, scale_, y_, scale_row_, scale_col_, changed_;
  LocalTensor<uint32_t> counts_;
  AscendC::TQue<TPosition::VECIN, 2> codes_in_, scale_in_;
  AscendC::TQue<TPosition::VECOUT, 2> out_, scale_row_out_, scale_col_out_;
  AscendC::TQue<TPosition::VECOUT, 1> counts_out_;
  AscendC::TBuf<TPosition::VECCALC> table_, work_;
};

// `changed`: 64 counts of 32 bits for each core. A scale byte above `nan_above` makes its tile NaN.
template <uint32_t REGISTERS>
__global__ __vector__ void mx_to_block(GM_ADDR codes, GM_ADDR scale, GM_ADDR y, GM_ADDR scale_row, GM_ADDR scale_col,
                                       GM_ADDR changed, ToBlockTiling tiling, ToBlockTable table, uint32_t nan_above) {
  AscendC::TPipe pipe;
  MxToBlock<REGISTERS>(pipe, codes, scale, y, scale_row, scale_col, changed, tiling, table, nan_above).run();
}

}  // namespace npu_lp::ascend
