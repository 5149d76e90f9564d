// One operand's way GM -> L1 -> L0, and its scales'.
//
// In L1, data lie in columns of 32 bytes: with rows leading, [k / C0][rows][C0]; with K leading, [rows / C0][k][C0],
// and the load into L0 turns squares of C0 x C0. Scales lie as [rows / 16][k / 64][16][2] either way.
#pragma once

#include "ascend/kernels/matmul_tile.h"

namespace npu_lp::ascend {

// T: element. kMx: has scales. kL1, kL0: A1 and A2, or B1 and B2.
template <typename T, bool kMx, AscendC::TPosition kL1, AscendC::TPosition kL0>
class MatmulOperand {
 public:
  static constexpr uint32_t kC0 = kBlockElements<T>;
  static constexpr uint32_t kPadK = kMx ? kScaledPair : kC0;  // K is filled up to this with zeros

  __aicore__ inline void Init(GM_ADDR data, GM_ADDR scales, const MatmulOperandTiling* tiling) {
    tiling_ = tiling;
    data_.SetGlobalBuffer((__gm__ T*)data);
    if constexpr (kMx) scales_.SetGlobalBuffer((__gm__ half*)scales);
  }

  // PIPE_MTE2: a chunk of K into its buffer, zeros after its end.
  __aicore__ inline void CopyChunk(const TileOperand& tile, const KRange& k, uint32_t stage) const {
    const uint32_t address = tiling_->l1[stage], padded = Padded(k.length);
    const AscendC::LocalTensor<T> target = L1<T>(address, ChunkElements(tile, padded));
    // Four-bit elements are copied as bytes, and the parameters of the copy count those.
    const auto pitch = BytesOf<T>(tiling_->pitch);
    if (tiling_->k_leading) {
      if (k.length != 0) {
        CopyLines(target, data_[tile.at + k.begin * tiling_->pitch], k.length,
                  static_cast<uint32_t>(BytesOf<T>(tile.rows)), pitch, padded);
      }
      FillZero(address + k.length * kBlockBytes, static_cast<uint32_t>(CeilDiv(tile.rows, kC0)), padded - k.length,
               k.length);
      return;
    }
    const uint32_t rows = AlignUp(tile.rows, kFractalRows);
    if (k.length != 0) {
      CopyLines(target, data_[tile.at + k.begin], tile.rows, static_cast<uint32_t>(BytesOf<T>(k.length)), pitch, rows);
    }
    // The copy itself fills its last column up to 32 bytes.
    const auto copied = static_cast<uint32_t>(CeilDiv(k.length, kC0));
    FillZero(address + copied * rows * kBlockBytes, 1, (padded / kC0 - copied) * rows, 0);
  }

  // PIPE_MTE2: scales of `length` elements of K from `begin`, which is a multiple of 64.
  __aicore__ inline void CopyScales(const TileOperand& tile, uint64_t begin, uint64_t length, uint32_t slot) const {
    const auto pairs = static_cast<uint32_t>(CeilDiv(length, kScaledPair));
    const uint64_t first = begin / kScaledPair;
    const uint32_t address = tiling_->scale_l1[slot];
    if (pairs == 0) {  // K = 0: data are zeros, and the smallest scale is a finite one
      FillZero(address, 1, static_cast<uint32_t>(CeilDiv(tile.rows, kFractalRows)), 0);
      return;
    }
    const AscendC::LocalTensor<half> target = L1<half>(address, PairElements(tile.rows, pairs));
    if (tiling_->scale_k_leading) {
      CopyLines(target, scales_[tile.scale_at + first * tiling_->scale_pitch], pairs, tile.rows, tiling_->scale_pitch,
                pairs);
      return;
    }
    AscendC::Dn2NzParams params;
    params.dnNum = 1;
    params.nValue = static_cast<uint16_t>(pairs);
    params.dValue = tile.rows;
    params.srcDValue = tiling_->scale_pitch;
    params.dstNzC0Stride = static_cast<uint16_t>(pairs);
    params.dstNzNStride = 1;
    AscendC::DataCopy(target, scales_[tile.scale_at + first], params);
  }

  // PIPE_MTE1: `length` elements of K from `begin` of a chunk of `chunk` elements, all multiples of kPadK, into a slot
  // of L0; scales from `scale_begin` of a load of `scale_length`.
  __aicore__ inline void Load(const TileOperand& tile, uint32_t stage, uint32_t chunk, uint32_t begin, uint32_t length,
                              uint32_t scale_slot, uint32_t scale_begin, uint32_t scale_length,
                              uint32_t l0_slot) const {
    AscendC::LoadData2DParamsV2 params;
    const uint32_t fractals = tile.rows_l0 / kFractalRows;
    params.dstStride = static_cast<uint16_t>(fractals);
    if (tiling_->k_leading) {
      params.mStartPosition = begin / kFractalRows;
      params.mStep = static_cast<uint16_t>(length / kFractalRows);
      params.kStep = static_cast<uint16_t>(tile.rows_l0 / kC0);
      params.srcStride = static_cast<int32_t>(chunk / kFractalRows);
      params.ifTranspose = true;
    } else {
      params.kStartPosition = begin / kC0;
      params.mStep = static_cast<uint16_t>(fractals);
      params.kStep = static_cast<uint16_t>(length / kC0);
      params.srcStride = static_cast<int32_t>(fractals);
    }
    const AscendC::LocalTensor<T> source = L1<T>(tiling_->l1[stage], ChunkElements(tile, chunk));
    const AscendC::LocalTensor<T> target = L0(tile, l0_slot, length);
    if constexpr (kMx) {
      const uint32_t pairs = scale_length / kScaledPair;
      AscendC::LoadData2DMxParams scales;
      scales.yStartPosition = static_cast<uint16_t>(scale_begin / kScaledPair);
      scales.xStep = static_cast<uint8_t>(CeilDiv(tile.rows, kFractalRows));
      scales.yStep = static_cast<uint8_t>(length / kScaledPair);
      scales.srcStride = static_cast<uint16_t>(pairs);
      scales.dstStride = static_cast<uint16_t>(length / kScaledPair);
      AscendC::LoadData(target, source,
                        L1<fp8_e8m0_t>(tiling_->scale_l1[scale_slot], PairElements(tile.rows, pairs) * 2), params,
                        scales);
    } else {
      AscendC::LoadData(target, source, params);
    }
  }

  __aicore__ inline AscendC::LocalTensor<T> L0(const TileOperand& tile, uint32_t slot, uint32_t length) const {
    return AscendC::LocalTensor<T>(kL0, slot * kL0SlotBytes, tile.rows_l0 * length);
  }

  // K as the buffers hold it: filled up with zeros, and not empty.
  __aicore__ static inline uint32_t Padded(uint32_t length) { return length == 0 ? kPadK : AlignUp(length, kPadK); }

 private:
  template <typename U>
  __aicore__ static inline AscendC::LocalTensor<U> L1(uint32_t address, uint32_t elements) {
    return AscendC::LocalTensor<U>(kL1, address, elements);
  }

  __aicore__ inline uint32_t ChunkElements(const TileOperand& tile, uint32_t chunk) const {
    return AlignUp(tile.rows, tiling_->k_leading ? kC0 : kFractalRows) * chunk;
  }

  __aicore__ static inline uint32_t PairElements(uint32_t rows, uint32_t pairs) {
    return AlignUp(rows, kFractalRows) * pairs;
  }

  // `lines` lines of `width` units, `pitch` units apart, into columns of `height` blocks.
  template <typename U>
  __aicore__ static inline void CopyLines(const AscendC::LocalTensor<U>& target, const AscendC::GlobalTensor<U>& source,
                                          uint32_t lines, uint32_t width, uint64_t pitch, uint32_t height) {
    AscendC::Nd2NzParams params;
    params.ndNum = 1;
    params.nValue = static_cast<uint16_t>(lines);
    params.dValue = width;
    params.srcDValue = pitch;
    params.dstNzC0Stride = static_cast<uint16_t>(height);
    params.dstNzNStride = 1;
    AscendC::DataCopy(target, source, params);
  }

  // `runs` runs of `blocks` blocks, `gap` blocks between them.
  __aicore__ static inline void FillZero(uint32_t address, uint32_t runs, uint32_t blocks, uint32_t gap) {
    if (runs == 0 || blocks == 0) return;
    AscendC::InitConstValueParams<uint16_t> params;
    params.repeatTimes = static_cast<uint16_t>(runs);
    params.blockNum = static_cast<uint16_t>(blocks);
    params.dstGap = static_cast<uint16_t>(gap);
    params.initValue = 0;
    const uint32_t span = (runs * (blocks + gap) - gap) * (kBlockBytes / sizeof(uint16_t));
    AscendC::Fill(L1<uint16_t>(address, span), params);
  }

  const MatmulOperandTiling* tiling_;
  AscendC::GlobalTensor<T> data_;
  AscendC::GlobalTensor<half> scales_;
};

}  // namespace npu_lp::ascend
