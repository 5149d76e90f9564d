// mx_quant along the rows of each group of a [rows, cols] matrix, the layout of a grouped matmul that is split along K:
// group g starts at row start(g) and at row floor(start(g) / 64) + g of the scales, whose blocks begin anew in it.
//
// A unit of work is one row of scales (its 64 rows of x, or fewer at a group's end) by a chunk of columns. Rows of
// scales between groups, and rows of codes after the last group, are zeroed.
#pragma once

#include "ascend/kernels/mx_quant_axis2.h"

namespace npu_lp::ascend {

template <typename In, typename To>
class MxQuantGrouped {
 public:
  __aicore__ inline MxQuantGrouped(AscendC::TPipe& pipe, GM_ADDR x, GM_ADDR ends, GM_ADDR y, GM_ADDR scale,
                                   const ColumnTiling& tiling, const QuantRule& rule)
      : tiling_(tiling), rule_(rule) {
    x_.SetGlobalBuffer(x);
    y_.SetGlobalBuffer(y);
    scale_.SetGlobalBuffer(scale);
    ends_.SetGlobalBuffer((__gm__ int64_t*)ends);
    pipe.InitBuffer(in_, 2, tiling.wide_bytes);
    pipe.InitBuffer(out_, 2, tiling.narrow_bytes);
    pipe.InitBuffer(scale_out_, 2, tiling.column_scale_bytes);
  }

  __aicore__ inline void run() {
    clear_codes();
    const Share share = share_of(tiling_.pairs * tiling_.chunks);
    if (share.begin == share.end) return;
    uint64_t pair = share.begin / tiling_.chunks, piece = share.begin % tiling_.chunks;
    find_group(pair);
    for (uint64_t unit = share.begin; unit < share.end; ++unit) {
      tile(pair, piece * tiling_.chunk);
      if (++piece == tiling_.chunks) {
        piece = 0;
        ++pair;
        while (group_ + 1 < tiling_.groups && pair >= row_of(group_ + 1, end_)) enter(group_ + 1, end_);
      }
    }
  }

 private:
  __aicore__ inline uint64_t end_of(uint64_t group) const { return static_cast<uint64_t>(ends_.GetValue(group)); }
  static __aicore__ inline uint64_t row_of(uint64_t group, uint64_t start) { return start / kTail + group; }

  __aicore__ inline void enter(uint64_t group, uint64_t start) {
    group_ = group;
    start_ = start;
    end_ = end_of(group);
  }

  // The group that a row of scales is in: the last one whose first row is not after it.
  __aicore__ inline void find_group(uint64_t pair) {
    if (tiling_.groups == 0) return;  // all rows come after the last group
    uint64_t low = 0, high = tiling_.groups;
    while (high - low > 1) {
      const uint64_t middle = (low + high) / 2;
      if (row_of(middle, end_of(middle - 1)) <= pair) {
        low = middle;
      } else {
        high = middle;
      }
    }
    enter(low, low == 0 ? 0 : end_of(low - 1));
  }

  __aicore__ inline void tile(uint64_t pair, uint64_t column) {
    const uint64_t left = tiling_.inner - column, row = start_ + (pair - row_of(group_, start_)) * kTail;
    const uint32_t cols = left < tiling_.chunk ? static_cast<uint32_t>(left) : tiling_.chunk;
    const uint64_t to = (pair * tiling_.inner + column) * 2;
    LocalTensor<uint8_t> scale = scale_out_.template AllocTensor<uint8_t>();
    if (row >= end_) {
      AscendC::Duplicate(scale.template ReinterpretCast<int32_t>(), 0, round_up(cols * 2, kUbBlock) / 4);
    } else {
      const uint32_t rows = end_ - row < kTail ? static_cast<uint32_t>(end_ - row) : kTail;
      quantize(scale, row * tiling_.inner + column, rows, cols);
    }
    scale_out_.EnQue(scale);
    scale = scale_out_.template DeQue<uint8_t>();
    copy_out(scale_[to], scale, 1, cols * 2, 0, 0);
    scale_out_.FreeTensor(scale);
  }

  __aicore__ inline void quantize(const LocalTensor<uint8_t>& scale, uint64_t first, uint32_t rows, uint32_t cols) {
    const uint32_t pitch = round_up(cols, kTail);
    LocalTensor<uint8_t> x = in_.template AllocTensor<uint8_t>();
    copy_in(x, x_[first * sizeof(In)], rows, cols * sizeof(In), tiling_.inner * sizeof(In), pitch * sizeof(In));
    in_.EnQue(x);
    x = in_.template DeQue<uint8_t>();
    LocalTensor<uint8_t> y = out_.template AllocTensor<uint8_t>();
    quantize_pair<In, To>(x, y, scale, rows, cols, rule_);
    in_.FreeTensor(x);
    out_.EnQue(y);
    y = out_.template DeQue<uint8_t>();
    copy_out(y_[first * To::kBits / 8], y, rows, cols * To::kBits / 8, tiling_.inner * To::kBits / 8,
             pitch * To::kBits / 8);
    out_.FreeTensor(y);
  }

  // The codes of rows that belong to no group, as one run of bytes that the cores share.
  __aicore__ inline void clear_codes() {
    const uint64_t last = tiling_.groups == 0 ? 0 : end_of(tiling_.groups - 1);
    const uint64_t first = last * tiling_.inner * To::kBits / 8;
    const Share share = share_of(tiling_.depth * tiling_.inner * To::kBits / 8 - first);
    if (share.begin == share.end) return;
    LocalTensor<uint8_t> zeros = out_.template AllocTensor<uint8_t>();
    AscendC::Duplicate(zeros.template ReinterpretCast<int32_t>(), 0, tiling_.narrow_bytes / 4);
    out_.EnQue(zeros);
    zeros = out_.template DeQue<uint8_t>();
    for (uint64_t at = share.begin; at < share.end; at += tiling_.narrow_bytes) {
      const uint64_t left = share.end - at;
      copy_out(y_[first + at], zeros, 1,
               left < tiling_.narrow_bytes ? static_cast<uint32_t>(left) : tiling_.narrow_bytes, 0, 0);
    }
    out_.FreeTensor(zeros);
  }

  ColumnTiling tiling_;
  QuantRule rule_;
  uint64_t group_ = 0, start_ = 0, end_ = 0;
  GlobalTensor<uint8_t> x_, y_, scale_;
  GlobalTensor<int64_t> ends_;
  AscendC::TQue<TPosition::VECIN, 2> in_;
  AscendC::TQue<TPosition::VECOUT, 2> out_, scale_out_;
};

template <typename In, typename To>
__global__ __vector__ void mx_quant_grouped(GM_ADDR x, GM_ADDR ends, GM_ADDR y, GM_ADDR scale, ColumnTiling tiling,
                                            QuantRule rule) {
  AscendC::TPipe pipe;
  AscendC::SetCtrlSpr<60, 60>(0);  // after TPipe, which resets the register: casts follow their own SatMode
  MxQuantGrouped<In, To>(pipe, x, ends, y, scale, tiling, rule).run();
}

}  // namespace npu_lp::ascend
