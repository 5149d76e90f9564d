// The pipeline of one cube core: takes tiles from a schedule and computes them. It serves dense and grouped products,
// MX formats and HiF8.
//
//   MTE2  GM -> L1   chunks of K, `stages` of them; scales for several chunks, two loads of them
//   MTE1  L1 -> L0   steps of K, two slots
//   M     L0 -> L0C
//   FIX   L0C -> GM
//
// Copies run ahead of the multiplications by all of L1's stages, over the border of tiles: a tile's first chunks arrive
// while the one before is still computed. The unit flag lets a store start, and the next tile follow it, fractal by
// fractal.
#pragma once

#include "ascend/kernels/matmul_operand.h"

namespace npu_lp::ascend {

// Events between MTE2 and MTE1; those of the chunks come first.
constexpr int32_t kScaleEvent = kMaxStages;

template <typename TA, typename TB, bool kMx>
class BlockMmad {
 public:
  __aicore__ inline void Init(GM_ADDR a, GM_ADDR b, GM_ADDR a_scale, GM_ADDR b_scale, GM_ADDR bias, GM_ADDR out,
                              const MatmulTiling* tiling) {
    tiling_ = tiling;
    a_.Init(a, a_scale, &tiling->a);
    b_.Init(b, b_scale, &tiling->b);
    bias_.SetGlobalBuffer((__gm__ float*)bias);
    out_ = out;
  }

  // Schedule: bool Next(MatmulTile&), false after the last tile of this core.
  template <typename Schedule>
  __aicore__ inline void Run(Schedule& schedule) {
    Start();
    if (tiling_->accumulate) AscendC::SetAtomicAdd<float>();
    while (true) {
      while (CopyNext(schedule)) {
      }
      if (copied_ == computed_) break;
      ComputeChunk();
    }
    if (tiling_->accumulate) AscendC::SetAtomicNone();
    Finish();
  }

 private:
  using OperandA = MatmulOperand<TA, kMx, AscendC::TPosition::A1, AscendC::TPosition::A2>;
  using OperandB = MatmulOperand<TB, kMx, AscendC::TPosition::B1, AscendC::TPosition::B2>;
  static constexpr uint32_t kTiles = 2 * kMaxStages;  // tiles in flight: those of all stages, and the one computed

  // Copies of one tile, and products of one tile, each at their own chunk.
  struct Cursor {
    uint32_t tile = 0;   // how many were begun
    uint32_t chunk = 0;  // next one
    KChunks chunks;
    bool active = false;
  };

  __aicore__ inline void Start() {
    for (uint32_t stage = 0; stage < tiling_->stages; ++stage) {
      AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(static_cast<int32_t>(stage));
    }
    for (int32_t slot = 0; slot < 2; ++slot) {
      if constexpr (kMx) AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(kScaleEvent + slot);
      AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(slot);
    }
  }

  __aicore__ inline void Finish() {
    for (uint32_t stage = 0; stage < tiling_->stages; ++stage) {
      AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(static_cast<int32_t>(stage));
    }
    for (int32_t slot = 0; slot < 2; ++slot) {
      if constexpr (kMx) AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(kScaleEvent + slot);
      AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(slot);
    }
    AscendC::PipeBarrier<PIPE_ALL>();
  }

  // Copies one more chunk, if there is one and L1 has room for it.
  template <typename Schedule>
  __aicore__ inline bool CopyNext(Schedule& schedule) {
    if (copied_ - computed_ == tiling_->stages) return false;
    if (!copy_.active) {
      if (!schedule.Next(tiles_[copy_.tile % kTiles])) return false;
      copy_.active = true;
      copy_.chunk = 0;
      copy_.chunks.Set(tiles_[copy_.tile % kTiles].k, *tiling_);
    }
    const MatmulTile& tile = tiles_[copy_.tile % kTiles];
    if constexpr (kMx) {
      if (copy_.chunk % tiling_->scale_factor == 0) {
        if (scales_copied_ - scales_used_ == kScaleSlots) return false;
        CopyScales(tile);
      }
    }
    const uint32_t stage = copied_ % tiling_->stages;
    const KRange k = copy_.chunks.Range(copy_.chunk);
    AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(static_cast<int32_t>(stage));
    a_.CopyChunk(tile.a, k, stage);
    b_.CopyChunk(tile.b, k, stage);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(static_cast<int32_t>(stage));
    ++copied_;
    if (++copy_.chunk == copy_.chunks.count) {
      copy_.active = false;
      ++copy_.tile;
    }
    return true;
  }

  __aicore__ inline void CopyScales(const MatmulTile& tile) {
    const uint32_t slot = scales_copied_++ % kScaleSlots;
    const uint64_t begin = copy_.chunks.Begin(copy_.chunk);
    const uint64_t length = copy_.chunks.Begin(copy_.chunk + tiling_->scale_factor) - begin;
    const int32_t event = kScaleEvent + static_cast<int32_t>(slot);
    AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(event);
    a_.CopyScales(tile.a, begin, length, slot);
    b_.CopyScales(tile.b, begin, length, slot);
    if (tiling_->has_bias && copy_.chunk == 0) {
      AscendC::Nd2NzParams row;
      row.ndNum = 1;
      row.nValue = 1;
      row.dValue = tile.b.rows;
      row.srcDValue = tile.b.rows;
      row.dstNzC0Stride = 1;
      row.dstNzNStride = 1;
      AscendC::DataCopy(BiasL1(tile, slot), bias_[tile.bias], row);
    }
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(event);
  }

  __aicore__ inline void ComputeChunk() {
    const MatmulTile& tile = tiles_[compute_.tile % kTiles];
    if (!compute_.active) {
      compute_.active = true;
      compute_.chunk = 0;
      compute_.chunks.Set(tile.k, *tiling_);
    }
    const KRange k = compute_.chunks.Range(compute_.chunk);
    const uint32_t stage = computed_ % tiling_->stages, padded = OperandA::Padded(k.length);
    const bool last_chunk = compute_.chunk + 1 == compute_.chunks.count;
    const bool first_scaled = kMx && compute_.chunk % tiling_->scale_factor == 0;
    const bool last_scaled = kMx && (last_chunk || (compute_.chunk + 1) % tiling_->scale_factor == 0);
    const uint32_t scale_slot = scales_used_ % kScaleSlots;
    const int32_t scale_event = kScaleEvent + static_cast<int32_t>(scale_slot);
    if (first_scaled) {
      scale_begin_ = k.begin;
      const uint64_t end = compute_.chunks.Begin(compute_.chunk + tiling_->scale_factor);
      scale_length_ = OperandA::Padded(static_cast<uint32_t>(end - k.begin));
    }
    for (uint32_t begin = 0; begin < padded; begin += tiling_->base_k) {
      const uint32_t length = padded - begin < tiling_->base_k ? padded - begin : tiling_->base_k;
      const bool first = compute_.chunk == 0 && begin == 0, last = begin + length == padded;
      const uint32_t l0 = steps_++ % 2;
      AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(static_cast<int32_t>(l0));
      if (begin == 0) {
        AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(static_cast<int32_t>(stage));
        if (first_scaled) AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(scale_event);
        if (first && tiling_->has_bias) LoadBias(tile, scale_slot);
      }
      const auto scale_at = static_cast<uint32_t>(k.begin - scale_begin_) + begin;
      a_.Load(tile.a, stage, padded, begin, length, scale_slot, scale_at, scale_length_, l0);
      b_.Load(tile.b, stage, padded, begin, length, scale_slot, scale_at, scale_length_, l0);
      AscendC::SetFlag<AscendC::HardEvent::MTE1_M>(static_cast<int32_t>(l0));
      if (last) AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(static_cast<int32_t>(stage));
      if (last && last_scaled) AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(scale_event);
      AscendC::WaitFlag<AscendC::HardEvent::MTE1_M>(static_cast<int32_t>(l0));
      if (first) TakeL0C(tile);
      Multiply(tile, l0, length, first, last && last_chunk);
      AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(static_cast<int32_t>(l0));
    }
    ++computed_;
    if (last_scaled) ++scales_used_;
    if (++compute_.chunk == compute_.chunks.count) {
      Store(tile);
      compute_.active = false;
      ++compute_.tile;
    }
  }

  // The bias table has a slot for each of two tiles: by the time the third comes, the slot of L0 it needs was given
  // back by a multiplication after the first's.
  __aicore__ inline void LoadBias(const MatmulTile& tile, uint32_t scale_slot) {
    const auto blocks = static_cast<uint16_t>(AlignUp(tile.b.rows, kFractalRows) * sizeof(float) / kBlockBytes);
    AscendC::DataCopy(BiasTable(tile), BiasL1(tile, scale_slot), AscendC::DataCopyParams(1, blocks, 0, 0));
  }

  // Unit flags are set and reset for whole fractals; they are used where the store reads all that the cube wrote.
  __aicore__ static inline bool UsesUnitFlag(const MatmulTile& tile) {
    return tile.a.rows_l0 == AlignUp(tile.a.rows, kFractalRows) && tile.b.rows_l0 == AlignUp(tile.b.rows, kFractalRows);
  }

  // Before the first multiplication of a tile: the store of the tile that was in this part of L0C must be over. Between
  // two tiles with unit flags the hardware sees to it.
  __aicore__ inline void TakeL0C(const MatmulTile& tile) {
    const uint32_t slot = compute_.tile % tiling_->l0c_slots;
    if (compute_.tile >= tiling_->l0c_slots && !(l0c_unit_[slot] && UsesUnitFlag(tile))) {
      AscendC::SetFlag<AscendC::HardEvent::FIX_M>(EVENT_ID0);
      AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(EVENT_ID0);
    }
    l0c_unit_[slot] = UsesUnitFlag(tile);
  }

  __aicore__ inline void Multiply(const MatmulTile& tile, uint32_t l0, uint32_t length, bool first, bool last) {
    AscendC::MmadParams params;
    params.m = static_cast<uint16_t>(tile.a.rows_l0);
    params.n = static_cast<uint16_t>(tile.b.rows_l0);
    params.k = static_cast<uint16_t>(length);
    params.cmatrixInitVal = first && !tiling_->has_bias;
    params.unitFlag = UsesUnitFlag(tile) ? (last ? 3 : 2) : 0;
    params.disableGemv = true;  // a single row is stored like any other
    const auto a = a_.L0(tile.a, l0, length);
    const auto b = b_.L0(tile.b, l0, length);
    const auto c = L0C(tile);
    if constexpr (kMx) {
      if (first && tiling_->has_bias) {
        AscendC::MmadMx(c, a, b, BiasTable(tile), params);
      } else {
        AscendC::MmadMx(c, a, b, params);
      }
    } else {
      AscendC::Mmad(c, a, b, params);
    }
    if (params.unitFlag == 0 && params.m / kFractalRows * (params.n / kFractalRows) < 10) {
      AscendC::PipeBarrier<PIPE_M>();  // so few fractals that the next sum would read before this one is written
    }
  }

  __aicore__ inline void Store(const MatmulTile& tile) {
    const bool scaled = tiling_->scale_out != 0;
    if (tiling_->out == MatmulOut::kBFloat16) {
      StoreAs<bfloat16_t>(tile, scaled ? QuantMode_t::QF322BF16_PRE : QuantMode_t::F322BF16);
    } else if (tiling_->out == MatmulOut::kFloat16) {
      StoreAs<half>(tile, scaled ? QuantMode_t::QF322F16_PRE : QuantMode_t::F322F16);
    } else {
      StoreAs<float>(tile, scaled ? QuantMode_t::QF322F32_PRE : QuantMode_t::NoQuant);
    }
  }

  template <typename TOut>
  __aicore__ inline void StoreAs(const MatmulTile& tile, QuantMode_t mode) {
    const bool unit = UsesUnitFlag(tile);
    if (!unit) {
      AscendC::SetFlag<AscendC::HardEvent::M_FIX>(EVENT_ID0);
      AscendC::WaitFlag<AscendC::HardEvent::M_FIX>(EVENT_ID0);
    }
    AscendC::GlobalTensor<TOut> out;
    out.SetGlobalBuffer((__gm__ TOut*)out_);
    AscendC::FixpipeParamsArch3510<AscendC::CO2Layout::ROW_MAJOR> params;
    params.nSize = static_cast<uint16_t>(tile.b.rows);
    params.mSize = static_cast<uint16_t>(tile.a.rows);
    params.srcStride = static_cast<uint16_t>(tile.a.rows_l0);
    params.dstStride = static_cast<uint32_t>(tiling_->out_pitch);
    params.quantPre = mode;
    params.deqScalar = tile.out_scale_bits;
    params.reluScalar = 0;
    params.unitFlag = unit ? 3 : 0;
    AscendC::Fixpipe<TOut, float, AscendC::CFG_ROW_MAJOR>(out[tile.out], L0C(tile), params);
  }

  __aicore__ inline AscendC::LocalTensor<float> L0C(const MatmulTile& tile) const {
    const uint32_t slot = compute_.tile % tiling_->l0c_slots;
    return AscendC::LocalTensor<float>(AscendC::TPosition::CO1, slot * (kL0CBytes / tiling_->l0c_slots),
                                       tile.a.rows_l0 * tile.b.rows_l0);
  }

  __aicore__ inline AscendC::LocalTensor<float> BiasL1(const MatmulTile& tile, uint32_t slot) const {
    return AscendC::LocalTensor<float>(AscendC::TPosition::C1, tiling_->bias_l1[slot],
                                       AlignUp(tile.b.rows, kFractalRows));
  }

  __aicore__ inline AscendC::LocalTensor<float> BiasTable(const MatmulTile& tile) const {
    return AscendC::LocalTensor<float>(AscendC::TPosition::C2, compute_.tile % 2 * kBiasSlotBytes, tile.b.rows_l0);
  }

  const MatmulTiling* tiling_;
  OperandA a_;
  OperandB b_;
  AscendC::GlobalTensor<float> bias_;
  GM_ADDR out_;
  MatmulTile tiles_[kTiles];
  Cursor copy_;
  Cursor compute_;
  uint32_t copied_ = 0;  // chunks
  uint32_t computed_ = 0;
  uint32_t scales_copied_ = 0;  // loads of scales
  uint32_t scales_used_ = 0;
  uint32_t steps_ = 0;
  uint64_t scale_begin_ = 0;  // of the scales in use
  uint32_t scale_length_ = 0;
  bool l0c_unit_[2] = {false, false};
};

}  // namespace npu_lp::ascend
