// Which tiles a core computes, and in which order. Tiles are numbered over all products of a launch and dealt to the
// cores in turn, so that a group that follows a short one starts on the next free core.
#pragma once

#include "ascend/kernels/matmul_tile.h"

namespace npu_lp::ascend {

// Tile `index` of a product of rows x columns tiles: a band of `window` tiles along M is walked along N, the next one
// back, so that the cores, which hold neighbouring indices, share rows of A and columns of B in L2.
struct TilePosition {
  uint64_t row;
  uint64_t column;

  __aicore__ inline TilePosition(uint64_t index, uint64_t rows, uint64_t columns, uint32_t window) {
    const uint64_t band = index / (window * columns), first = band * window;
    const uint64_t height = rows - first < window ? rows - first : window;
    const uint64_t in_band = index - first * columns;
    row = first + in_band % height;
    column = in_band / height;
    if (band % 2 == 1) column = columns - 1 - column;
  }
};

// One product and its tiles. Where its operands and its result begin in GM, in elements (scales: pairs).
struct Product {
  uint64_t a = 0, b = 0, a_scale = 0, b_scale = 0, out = 0;
  uint64_t m = 0, k = 0;
  uint32_t base_m = 0;
  uint32_t out_scale_bits = 0;
  uint64_t row_tiles = 0, column_tiles = 0;

  __aicore__ inline uint64_t Tiles() const { return row_tiles * column_tiles; }

  // Sets the size; base_m <= the tiling's.
  __aicore__ inline void Cut(const MatmulTiling& tiling, uint64_t rows, uint64_t length, uint32_t base) {
    m = rows;
    k = length;
    base_m = base;
    row_tiles = CeilDiv(rows, base);
    column_tiles = CeilDiv(tiling.n, tiling.b.base);
  }

  __aicore__ inline void Tile(const MatmulTiling& tiling, uint64_t index, MatmulTile& tile) const {
    const TilePosition at(index, row_tiles, column_tiles, tiling.window);
    const uint64_t row = at.row * base_m, column = at.column * tiling.b.base;
    Place(tiling.a, a, a_scale, row, m - row < base_m ? m - row : base_m, tile.a);
    Place(tiling.b, b, b_scale, column, tiling.n - column < tiling.b.base ? tiling.n - column : tiling.b.base, tile.b);
    tile.k = k;
    tile.out = out + row * tiling.out_pitch + column;
    tile.bias = column;
    tile.out_scale_bits = out_scale_bits;
  }

 private:
  __aicore__ static inline void Place(const MatmulOperandTiling& x, uint64_t data, uint64_t scales, uint64_t row,
                                      uint64_t rows, TileOperand& operand) {
    operand.at = data + (x.k_leading ? row : row * x.pitch);
    operand.scale_at = scales + (x.scale_k_leading ? row : row * x.scale_pitch);
    operand.rows = static_cast<uint32_t>(rows);
    operand.rows_l0 = AlignUp(operand.rows, x.align);
  }
};

// Bits of the factor that Fixpipe applies. It keeps 10 bits of the mantissa, which the low 13 are not part of.
__aicore__ inline uint32_t ScaleBits(float value) {
  union {
    float value;
    uint32_t bits;
  } both;
  both.value = value;
  return both.bits & 0xFFFFE000u;
}
constexpr uint32_t kScaleOne = 0x3F800000u;

// HiF8's scales in GM; without them, the results stay as they are.
class OutScales {
 public:
  __aicore__ inline void Init(GM_ADDR a, GM_ADDR b, const MatmulTiling& tiling) {
    used_ = tiling.scale_out != 0;
    a_step_ = tiling.a_scale_step;
    b_step_ = tiling.b_scale_step;
    a_.SetGlobalBuffer((__gm__ float*)a);
    b_.SetGlobalBuffer((__gm__ float*)b);
  }
  __aicore__ inline uint32_t Bits(uint32_t group) const {
    return used_ ? ScaleBits(b_.GetValue(group * b_step_) * a_.GetValue(group * a_step_)) : kScaleOne;
  }

 private:
  bool used_ = false;
  uint32_t a_step_ = 0, b_step_ = 0;
  AscendC::GlobalTensor<float> a_, b_;
};

// Products of equal sizes, one a batch.
class BatchSchedule {
 public:
  __aicore__ inline void Init(const MatmulTiling* tiling, uint32_t out_scale_bits) {
    tiling_ = tiling;
    product_.out_scale_bits = out_scale_bits;
    product_.Cut(*tiling, tiling->m, tiling->k, tiling->a.base);
    next_ = static_cast<uint64_t>(AscendC::GetBlockIdx());
  }

  __aicore__ inline bool Next(MatmulTile& tile) {
    const uint64_t batch = next_ / product_.Tiles();
    if (batch >= tiling_->batches) return false;
    product_.a = batch * tiling_->a.batch_stride;
    product_.b = batch * tiling_->b.batch_stride;
    product_.a_scale = batch * tiling_->a.scale_batch_stride;
    product_.b_scale = batch * tiling_->b.scale_batch_stride;
    product_.out = batch * tiling_->out_batch_stride;
    product_.Tile(*tiling_, next_ % product_.Tiles(), tile);
    next_ += tiling_->blocks;
    return true;
  }

 private:
  const MatmulTiling* tiling_;
  Product product_;
  uint64_t next_;
};

// Products of the groups that offsets[g] (ends, int64) cut rows of A (split m) or K of both operands (split k) into.
// Rows after the last group are one more group, without K: zeros.
class GroupSchedule {
 public:
  __aicore__ inline void Init(const MatmulTiling* tiling, GM_ADDR offsets, GM_ADDR a_scale, GM_ADDR b_scale) {
    tiling_ = tiling;
    offsets_.SetGlobalBuffer((__gm__ int64_t*)offsets);
    scales_.Init(a_scale, b_scale, *tiling);
    next_ = static_cast<uint64_t>(AscendC::GetBlockIdx());
  }

  __aicore__ inline bool Next(MatmulTile& tile) {
    while (next_ >= product_.Tiles()) {
      next_ -= product_.Tiles();  // what is left over shifts the next group to other cores
      if (!NextGroup()) {
        product_.row_tiles = 0;  // and none if asked again
        return false;
      }
    }
    product_.Tile(*tiling_, next_, tile);
    next_ += tiling_->blocks;
    return true;
  }

 private:
  __aicore__ inline bool NextGroup() {
    const bool by_rows = tiling_->split == MatmulSplit::kM;
    const uint64_t total = by_rows ? tiling_->m : tiling_->k;
    if (group_ == tiling_->groups) {
      if (!by_rows || tiling_->accumulate || end_ == total) return false;
      ++group_;
      const uint64_t start = end_;
      end_ = total;
      SetRows(start, total - start, 0);
      product_.out_scale_bits = kScaleOne;
      return true;
    }
    if (group_ > tiling_->groups) return false;
    const uint64_t start = end_;
    end_ = static_cast<uint64_t>(offsets_.GetValue(group_));
    const uint64_t length = end_ - start;
    if (by_rows) {
      product_.b = group_ * tiling_->b.batch_stride;
      product_.b_scale = group_ * tiling_->b.scale_batch_stride;
      SetRows(start, length, tiling_->k);
    } else {
      // The pairs of scales of a group start on a line of their own.
      const uint64_t line = start / kScaledPair + group_;
      product_.a = start * (tiling_->a.k_leading ? tiling_->a.pitch : 1);
      product_.b = start * (tiling_->b.k_leading ? tiling_->b.pitch : 1);
      product_.a_scale = line * (tiling_->a.scale_k_leading ? tiling_->a.scale_pitch : 1);
      product_.b_scale = line * (tiling_->b.scale_k_leading ? tiling_->b.scale_pitch : 1);
      product_.out = group_ * tiling_->out_batch_stride;
      const bool adds_nothing = length == 0 && tiling_->accumulate;
      product_.Cut(*tiling_, adds_nothing ? 0 : tiling_->m, length, tiling_->a.base);
    }
    // The sum over nothing is zero whatever its scale.
    product_.out_scale_bits = product_.k == 0 ? kScaleOne : scales_.Bits(group_);
    ++group_;
    return true;
  }

  // Rows of a group are dealt evenly to as many tiles as they need.
  __aicore__ inline void SetRows(uint64_t start, uint64_t rows, uint64_t k) {
    const MatmulOperandTiling& x = tiling_->a;
    product_.a = start * (x.k_leading ? 1 : x.pitch);
    product_.a_scale = start * (x.scale_k_leading ? 1 : x.scale_pitch);
    product_.out = start * tiling_->out_pitch;
    const uint64_t tiles = CeilDiv(rows, x.base);
    const uint32_t base = tiles == 0 ? x.base : AlignUp(static_cast<uint32_t>(CeilDiv(rows, tiles)), x.align);
    product_.Cut(*tiling_, rows, k, base);
  }

  const MatmulTiling* tiling_;
  AscendC::GlobalTensor<int64_t> offsets_;
  OutScales scales_;
  Product product_;
  uint64_t next_;
  uint64_t end_ = 0;
  uint32_t group_ = 0;
};

}  // namespace npu_lp::ascend
