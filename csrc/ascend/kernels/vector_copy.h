// Copies of a tile between GM and UB, and how the cores of a launch share the units of work.
#pragma once

#include "kernel_operator.h"

namespace npu_lp::ascend {

using AscendC::DataCopyExtParams;
using AscendC::DataCopyPadExtParams;
using AscendC::GlobalTensor;
using AscendC::LocalTensor;
using AscendC::TPosition;

constexpr uint32_t kUbBlock = 32;  // bytes

template <typename T>
__aicore__ inline T round_up(T value, T unit) {
  return (value + unit - 1) / unit * unit;
}

// The units [begin, end) of this core: runs of equal length, give or take one.
struct Share {
  uint64_t begin;
  uint64_t end;
};

__aicore__ inline Share share_of(uint64_t units) {
  const uint64_t core = static_cast<uint64_t>(AscendC::GetBlockIdx());
  const uint64_t cores = static_cast<uint64_t>(AscendC::GetBlockNum());
  const uint64_t each = units / cores, more = units % cores;
  const uint64_t begin = core * each + (core < more ? core : more);
  return {begin, begin + each + (core < more ? 1 : 0)};
}

// `rows` rows of `row_bytes` between GM (gm_pitch bytes from row to row) and UB (ub_pitch, a multiple of 32). Rows that
// are contiguous on both sides go as one burst. Bytes of UB between the rows are left as they are or undefined.
__aicore__ inline void copy_in(const LocalTensor<uint8_t>& to, const GlobalTensor<uint8_t>& from, uint32_t rows,
                               uint32_t row_bytes, uint64_t gm_pitch, uint32_t ub_pitch) {
  const DataCopyPadExtParams<uint8_t> no_padding{false, 0, 0, 0};
  if (rows == 1 || (row_bytes == gm_pitch && row_bytes == ub_pitch)) {
    AscendC::DataCopyPad(to, from, DataCopyExtParams{1, rows * row_bytes, 0, 0, 0}, no_padding);
    return;
  }
  const uint32_t gap = (ub_pitch - round_up(row_bytes, kUbBlock)) / kUbBlock;
  AscendC::DataCopyPad(to, from,
                       DataCopyExtParams{static_cast<uint16_t>(rows), row_bytes,
                                         static_cast<int64_t>(gm_pitch - row_bytes), static_cast<int64_t>(gap), 0},
                       no_padding);
}

__aicore__ inline void copy_out(const GlobalTensor<uint8_t>& to, const LocalTensor<uint8_t>& from, uint32_t rows,
                                uint32_t row_bytes, uint64_t gm_pitch, uint32_t ub_pitch) {
  if (rows == 1 || (row_bytes == gm_pitch && row_bytes == ub_pitch)) {
    AscendC::DataCopyPad(to, from, DataCopyExtParams{1, rows * row_bytes, 0, 0, 0});
    return;
  }
  const uint32_t gap = (ub_pitch - round_up(row_bytes, kUbBlock)) / kUbBlock;
  AscendC::DataCopyPad(to, from,
                       DataCopyExtParams{static_cast<uint16_t>(rows), row_bytes, static_cast<int64_t>(gap),
                                         static_cast<int64_t>(gm_pitch - row_bytes), 0});
}

// The same from rows that lie end to end in UB, at any length: scale bytes.
__aicore__ inline void copy_out_compact(const GlobalTensor<uint8_t>& to, const LocalTensor<uint8_t>& from,
                                        uint32_t rows, uint32_t row_bytes, uint64_t gm_pitch) {
  if (rows == 1 || row_bytes == gm_pitch) {
    AscendC::DataCopyPad(to, from, DataCopyExtParams{1, rows * row_bytes, 0, 0, 0});
    return;
  }
  AscendC::DataCopyPad<uint8_t, AscendC::PaddingMode::Compact>(
      to, from,
      DataCopyExtParams{static_cast<uint16_t>(rows), row_bytes, 0, static_cast<int64_t>(gm_pitch - row_bytes), 0});
}

__aicore__ inline void copy_in_compact(const LocalTensor<uint8_t>& to, const GlobalTensor<uint8_t>& from, uint32_t rows,
                                       uint32_t row_bytes, uint64_t gm_pitch) {
  const DataCopyPadExtParams<uint8_t> no_padding{false, 0, 0, 0};
  if (rows == 1 || row_bytes == gm_pitch) {
    AscendC::DataCopyPad(to, from, DataCopyExtParams{1, rows * row_bytes, 0, 0, 0}, no_padding);
    return;
  }
  AscendC::DataCopyPad<uint8_t, AscendC::PaddingMode::Compact>(
      to, from,
      DataCopyExtParams{static_cast<uint16_t>(rows), row_bytes, static_cast<int64_t>(gm_pitch - row_bytes), 0, 0},
      no_padding);
}

}  // namespace npu_lp::ascend
