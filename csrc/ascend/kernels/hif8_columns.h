// HiF8 quantization with one scale for each column of `slices` matrices [rows, cols].
#pragma once

#include "ascend/kernels/hif8_rows.h"

namespace npu_lp::ascend {

// amax of each column over `rows` more rows; with `earlier` 0 over these alone, with 1 over those before as well.
template <typename In>
__simd_vf__ inline void add_to_column_amax(__ubuf__ BitsOf<In>* amax, __ubuf__ In* x, uint32_t pitch, uint16_t rows,
                                           uint16_t earlier) {
  using Bits = BitsOf<In>;
  constexpr uint32_t kWidth = 256 / sizeof(In);
  __ubuf__ Bits* bits = (__ubuf__ Bits*)x;
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  Reg::RegTensor<Bits> magnitude, largest, values;
  Reg::Duplicate(magnitude, static_cast<Bits>(kAbsBits<In>));
  const uint16_t groups = static_cast<uint16_t>((pitch + kWidth - 1) / kWidth);
  for (uint16_t group = 0; group < groups; ++group) {
    Reg::Duplicate(largest, static_cast<Bits>(0));
    for (uint16_t i = 0; i < earlier; ++i) Reg::LoadAlign(largest, amax + group * kWidth);
    for (uint16_t row = 0; row < rows; ++row) {
      Reg::LoadAlign(values, bits + group * kWidth + row * pitch);
      Reg::And(values, values, magnitude, all);
      Reg::Max(largest, largest, values, all);
    }
    Reg::StoreAlign(amax + group * kWidth, largest, all);
  }
}

template <typename In>
__simd_vf__ inline void finish_column_amax(__ubuf__ float* out, __ubuf__ BitsOf<In>* amax, uint32_t pitch) {
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  const uint16_t steps = static_cast<uint16_t>(pitch / kLanes);
  Reg::RegTensor<int32_t> bits;
  for (uint16_t i = 0; i < steps; ++i) {
    load_amax<In>(bits, amax + i * kLanes, all);
    Reg::StoreAlign((__ubuf__ int32_t*)out + i * kLanes, bits, all);
  }
}

__simd_vf__ inline void combine_column_partials(__ubuf__ float* scale, __ubuf__ float* out, __ubuf__ float* partials,
                                                uint16_t parts, uint32_t pitch, float inverse_max) {
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  const uint16_t steps = static_cast<uint16_t>(pitch / kLanes);
  Reg::RegTensor<uint32_t> largest, values;
  for (uint16_t i = 0; i < steps; ++i) {
    Reg::Duplicate(largest, static_cast<uint32_t>(0));
    for (uint16_t part = 0; part < parts; ++part) {
      Reg::LoadAlign(values, (__ubuf__ uint32_t*)partials + part * pitch + i * kLanes);
      Reg::Max(largest, largest, values, all);
    }
    Reg::RegTensor<float>& scales = (Reg::RegTensor<float>&)largest;
    scale_from_amax(scales, inverse_max, all);
    Reg::StoreAlign(scale + i * kLanes, scales, all);
    Reg::StoreAlign(out + i * kLanes, scales, all);
  }
}

template <typename In>
__simd_vf__ inline void encode_columns(__ubuf__ uint8_t* y, __ubuf__ In* x, __ubuf__ float* scale, uint32_t pitch,
                                       uint16_t rows) {
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  const uint16_t groups = static_cast<uint16_t>((pitch + kGroup - 1) / kGroup);
  Reg::RegTensor<float> even, odd;
  uint32_t lanes = pitch / 2;
  for (uint16_t group = 0; group < groups; ++group) {
    Reg::MaskReg stored = Reg::UpdateMask<uint32_t>(lanes);
    Reg::LoadAlign<float, Reg::LoadDist::DIST_DINTLV_B32>(even, odd, scale + group * kGroup);
    for (uint16_t row = 0; row < rows; ++row) {
      encode_hif8(y + group * kGroup + row * pitch, x + group * kGroup + row * pitch, even, odd, all, stored);
    }
  }
}

template <typename In>
class Hif8AmaxColumns {
 public:
  __aicore__ inline Hif8AmaxColumns(AscendC::TPipe& pipe, GM_ADDR x, GM_ADDR partials, const Hif8Tiling& tiling)
      : tiling_(tiling) {
    x_.SetGlobalBuffer(x);
    partials_.SetGlobalBuffer(partials);
    pipe.InitBuffer(in_, 2, tiling.wide_bytes);
    pipe.InitBuffer(out_, 2, tiling.scale_bytes);
    pipe.InitBuffer(amax_, tiling.amax_bytes);
  }

  __aicore__ inline void run() {
    const Share share = share_of(tiling_.slices * tiling_.parts * tiling_.chunks);
    for (uint64_t unit = share.begin; unit < share.end; ++unit) {
      const uint64_t part = unit / tiling_.chunks;
      columns(part / tiling_.parts, part % tiling_.parts, unit % tiling_.chunks * tiling_.chunk);
    }
  }

 private:
  __aicore__ inline void columns(uint64_t slice, uint64_t part, uint64_t column) {
    const uint64_t left = tiling_.cols - column, begin = part * tiling_.part;
    const uint32_t cols = left < tiling_.chunk ? static_cast<uint32_t>(left) : tiling_.chunk;
    const uint32_t pitch = round_up(cols, kTail);
    const uint64_t end = begin + tiling_.part < tiling_.rows ? begin + tiling_.part : tiling_.rows;
    LocalTensor<uint8_t> amax = amax_.template Get<uint8_t>();
    for (uint64_t row = begin; row < end; row += tiling_.tile_rows) {
      const uint32_t rows = end - row < tiling_.tile_rows ? static_cast<uint32_t>(end - row) : tiling_.tile_rows;
      LocalTensor<uint8_t> x = in_.template AllocTensor<uint8_t>();
      copy_in(x, x_[((slice * tiling_.rows + row) * tiling_.cols + column) * sizeof(In)], rows, cols * sizeof(In),
              tiling_.cols * sizeof(In), pitch * sizeof(In));
      in_.EnQue(x);
      x = in_.template DeQue<uint8_t>();
      asc_vf_call<add_to_column_amax<In>>((__ubuf__ BitsOf<In>*)amax.GetPhyAddr(), (__ubuf__ In*)x.GetPhyAddr(), pitch,
                                          static_cast<uint16_t>(rows), static_cast<uint16_t>(row == begin ? 0 : 1));
      in_.FreeTensor(x);
    }
    LocalTensor<uint8_t> out = out_.template AllocTensor<uint8_t>();
    asc_vf_call<finish_column_amax<In>>((__ubuf__ float*)out.GetPhyAddr(), (__ubuf__ BitsOf<In>*)amax.GetPhyAddr(),
                                        pitch);
    out_.EnQue(out);
    out = out_.template DeQue<uint8_t>();
    copy_out(partials_[((slice * tiling_.parts + part) * tiling_.cols + column) * sizeof(float)], out, 1,
             cols * static_cast<uint32_t>(sizeof(float)), 0, 0);
    out_.FreeTensor(out);
  }

  Hif8Tiling tiling_;
  GlobalTensor<uint8_t> x_, partials_;
  AscendC::TQue<TPosition::VECIN, 2> in_;
  AscendC::TQue<TPosition::VECOUT, 2> out_;
  AscendC::TBuf<TPosition::VECCALC> amax_;
};

template <typename In>
class Hif8QuantColumns {
 public:
  __aicore__ inline Hif8QuantColumns(AscendC::TPipe& pipe, GM_ADDR x, GM_ADDR partials, GM_ADDR y, GM_ADDR scale,
                                     const Hif8Tiling& tiling)
      : tiling_(tiling) {
    x_.SetGlobalBuffer(x);
    partials_.SetGlobalBuffer(partials);
    y_.SetGlobalBuffer(y);
    scale_.SetGlobalBuffer(scale);
    pipe.InitBuffer(in_, 2, tiling.wide_bytes);
    pipe.InitBuffer(partial_in_, 2, tiling.partial_bytes);
    pipe.InitBuffer(out_, 2, tiling.narrow_bytes);
    pipe.InitBuffer(scale_out_, 2, tiling.scale_bytes);
    pipe.InitBuffer(kept_, tiling.amax_bytes);
  }

  // Tiles go down the rows first, so that the scales of a chunk of columns are made once.
  __aicore__ inline void run() {
    const uint64_t strips = (tiling_.rows + tiling_.tile_rows - 1) / tiling_.tile_rows;
    const Share share = share_of(tiling_.slices * tiling_.chunks * strips);
    for (uint64_t unit = share.begin; unit < share.end; ++unit) {
      const uint64_t strip = unit % strips, slice = unit / strips / tiling_.chunks;
      const uint64_t column = unit / strips % tiling_.chunks * tiling_.chunk, left = tiling_.cols - column;
      const uint32_t cols = left < tiling_.chunk ? static_cast<uint32_t>(left) : tiling_.chunk;
      if (unit == share.begin || strip == 0) load_scales(slice, column, cols, strip == 0);
      encode(slice, strip * tiling_.tile_rows, column, cols);
    }
  }

 private:
  __aicore__ inline void load_scales(uint64_t slice, uint64_t column, uint32_t cols, bool write) {
    const uint32_t bytes = cols * static_cast<uint32_t>(sizeof(float)), pitch = round_up(cols, kTail);
    LocalTensor<uint8_t> partials = partial_in_.template AllocTensor<uint8_t>();
    copy_in(partials, partials_[(slice * tiling_.parts * tiling_.cols + column) * sizeof(float)], tiling_.parts, bytes,
            tiling_.cols * sizeof(float), pitch * static_cast<uint32_t>(sizeof(float)));
    partial_in_.EnQue(partials);
    partials = partial_in_.template DeQue<uint8_t>();
    LocalTensor<uint8_t> scale = scale_out_.template AllocTensor<uint8_t>(), kept = kept_.template Get<uint8_t>();
    asc_vf_call<combine_column_partials>((__ubuf__ float*)kept.GetPhyAddr(), (__ubuf__ float*)scale.GetPhyAddr(),
                                         (__ubuf__ float*)partials.GetPhyAddr(), static_cast<uint16_t>(tiling_.parts),
                                         pitch, tiling_.inverse_max);
    partial_in_.FreeTensor(partials);
    scale_out_.EnQue(scale);
    scale = scale_out_.template DeQue<uint8_t>();
    if (write) copy_out(scale_[(slice * tiling_.cols + column) * sizeof(float)], scale, 1, bytes, 0, 0);
    scale_out_.FreeTensor(scale);
  }

  __aicore__ inline void encode(uint64_t slice, uint64_t row, uint64_t column, uint32_t cols) {
    const uint64_t down = tiling_.rows - row, first = (slice * tiling_.rows + row) * tiling_.cols + column;
    const uint32_t rows = down < tiling_.tile_rows ? static_cast<uint32_t>(down) : tiling_.tile_rows;
    const uint32_t pitch = round_up(cols, kTail);
    LocalTensor<uint8_t> x = in_.template AllocTensor<uint8_t>();
    copy_in(x, x_[first * sizeof(In)], rows, cols * sizeof(In), tiling_.cols * sizeof(In), pitch * sizeof(In));
    in_.EnQue(x);
    x = in_.template DeQue<uint8_t>();
    LocalTensor<uint8_t> y = out_.template AllocTensor<uint8_t>(), kept = kept_.template Get<uint8_t>();
    asc_vf_call<encode_columns<In>>((__ubuf__ uint8_t*)y.GetPhyAddr(), (__ubuf__ In*)x.GetPhyAddr(),
                                    (__ubuf__ float*)kept.GetPhyAddr(), pitch, static_cast<uint16_t>(rows));
    in_.FreeTensor(x);
    out_.EnQue(y);
    y = out_.template DeQue<uint8_t>();
    copy_out(y_[first], y, rows, cols, tiling_.cols, pitch);
    out_.FreeTensor(y);
  }

  Hif8Tiling tiling_;
  GlobalTensor<uint8_t> x_, partials_, y_, scale_;
  AscendC::TQue<TPosition::VECIN, 2> in_, partial_in_;
  AscendC::TQue<TPosition::VECOUT, 2> out_, scale_out_;
  AscendC::TBuf<TPosition::VECCALC> kept_;
};

}  // namespace npu_lp::ascend
