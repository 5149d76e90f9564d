// HiF8 quantization with one scale for each row of [rows, cols] (a tensor is one row), as register code and kernels.
// Rows that fit into UB are read once; of longer ones hif8_amax_rows leaves partial maxima in GM.
#pragma once

#include "ascend/kernels/float_output.h"
#include "ascend/kernels/row_blocks.h"
#include "ascend/kernels/vector_copy.h"

namespace npu_lp::ascend {

// A quotient rounded once, with subnormal results: what x / scale is to the other backends.
inline constexpr Reg::DivSpecificMode kExactDiv = {Reg::MaskMergeMode::ZEROING, true,
                                                   AscendC::DivAlgo::PRECISION_0ULP_FTZ_FALSE};

// largest = max(largest, |x|) over `count` elements, lane by lane.
template <typename In>
__simd_callee__ inline void gather_amax(Reg::RegTensor<BitsOf<In>>& largest, __ubuf__ In* x, uint32_t count) {
  using Bits = BitsOf<In>;
  constexpr uint32_t kWidth = 256 / sizeof(In);
  __ubuf__ Bits* bits = (__ubuf__ Bits*)x;
  const uint16_t steps = static_cast<uint16_t>((count + kWidth - 1) / kWidth);
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  Reg::RegTensor<Bits> magnitude, values;
  Reg::Duplicate(magnitude, static_cast<Bits>(kAbsBits<In>));
  uint32_t left = count;
  for (uint16_t i = 0; i < steps; ++i) {
    Reg::MaskReg inside = Reg::UpdateMask<Bits>(left);
    Reg::LoadAlign(values, bits + i * kWidth);
    Reg::And(values, values, magnitude, inside);
    Reg::Max(largest, largest, values, all);
  }
}

// The largest of all lanes, as fp32 in lane 0.
template <typename In>
__simd_callee__ inline void reduce_amax(Reg::RegTensor<float>& amax, Reg::RegTensor<BitsOf<In>>& largest,
                                        Reg::MaskReg& all) {
  Reg::RegTensor<BitsOf<In>> most;
  Reg::Reduce<Reg::ReduceType::MAX>(most, largest, all);
  if constexpr (sizeof(In) == 4) {
    Reg::Max((Reg::RegTensor<uint32_t>&)amax, most, most, all);
  } else {
    Reg::Cast<float, In, kWidenEven>(amax, (Reg::RegTensor<In>&)most, all);
  }
}

__simd_callee__ inline void scale_from_amax(Reg::RegTensor<float>& scale, float inverse_max, Reg::MaskReg& all) {
  Reg::RegTensor<uint32_t> nan;
  Reg::Duplicate(nan, static_cast<uint32_t>(kNaNBits));
  Reg::Muls(scale, scale, inverse_max, all);
  canonical(scale, nan, all);
}

template <typename In>
__simd_callee__ inline void encode_hif8(__ubuf__ uint8_t* y, __ubuf__ In* x, Reg::RegTensor<float>& even_scale,
                                        Reg::RegTensor<float>& odd_scale, Reg::MaskReg& all, Reg::MaskReg& stored) {
  Reg::RegTensor<float> even, odd;
  load_pair(even, odd, x, all);
  Reg::Div<float, &kExactDiv>(even, even, even_scale, all);
  Reg::Div<float, &kExactDiv>(odd, odd, odd_scale, all);
  store_fp8<ToHiF8>(y, even, odd, all, stored);
}

template <typename In>
__simd_callee__ inline void encode_hif8_run(__ubuf__ uint8_t* y, __ubuf__ In* x, Reg::RegTensor<float>& scale,
                                            uint32_t elements, Reg::MaskReg& all) {
  const uint16_t steps = static_cast<uint16_t>((elements + kGroup - 1) / kGroup);
  uint32_t lanes = elements / 2;
  for (uint16_t i = 0; i < steps; ++i) {
    Reg::MaskReg stored = Reg::UpdateMask<uint32_t>(lanes);
    encode_hif8(y + i * kGroup, x + i * kGroup, scale, scale, all, stored);
  }
}

// Whole rows: amax, scale and codes.
template <typename In>
__simd_vf__ inline void hif8_whole_rows(__ubuf__ In* x, __ubuf__ uint8_t* y, __ubuf__ float* scale, uint16_t rows,
                                        uint32_t cols, uint32_t pitch, float inverse_max) {
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  Reg::RegTensor<BitsOf<In>> largest;
  Reg::RegTensor<float> first, spread;
  for (uint16_t row = 0; row < rows; ++row) {
    Reg::Duplicate(largest, static_cast<BitsOf<In>>(0));
    gather_amax(largest, x + row * pitch, cols);
    reduce_amax<In>(first, largest, all);
    scale_from_amax(first, inverse_max, all);
    Reg::StoreAlign<float, Reg::StoreDist::DIST_FIRST_ELEMENT_B32>(scale + row, first, all);
    Reg::Duplicate(spread, first, all);
    encode_hif8_run(y + row * pitch, x + row * pitch, spread, pitch, all);
  }
}

template <typename Bits>
__simd_vf__ inline void clear_register(__ubuf__ Bits* at) {
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  Reg::RegTensor<Bits> zero;
  Reg::Duplicate(zero, static_cast<Bits>(0));
  Reg::StoreAlign(at, zero, all);
}

template <typename In>
__simd_vf__ inline void add_to_amax(__ubuf__ BitsOf<In>* amax, __ubuf__ In* x, uint32_t count) {
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  Reg::RegTensor<BitsOf<In>> largest;
  Reg::LoadAlign(largest, amax);
  gather_amax(largest, x, count);
  Reg::StoreAlign(amax, largest, all);
}

template <typename In>
__simd_vf__ inline void finish_amax(__ubuf__ float* out, __ubuf__ BitsOf<In>* amax) {
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  Reg::RegTensor<BitsOf<In>> largest;
  Reg::RegTensor<float> first;
  Reg::LoadAlign(largest, amax);
  reduce_amax<In>(first, largest, all);
  Reg::StoreAlign<float, Reg::StoreDist::DIST_FIRST_ELEMENT_B32>(out, first, all);
}

// Up to 64 partial maxima -> the scale, to `scale` for the codes and to `out` for GM.
__simd_vf__ inline void combine_partials(__ubuf__ float* scale, __ubuf__ float* out, __ubuf__ float* partials,
                                         uint32_t count, float inverse_max) {
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  uint32_t left = count;
  Reg::MaskReg inside = Reg::UpdateMask<uint32_t>(left);
  Reg::RegTensor<uint32_t> values;
  Reg::RegTensor<float> first;
  Reg::LoadAlign(values, (__ubuf__ uint32_t*)partials);
  Reg::Reduce<Reg::ReduceType::MAX>(values, values, inside);
  Reg::Max((Reg::RegTensor<uint32_t>&)first, values, values, all);
  scale_from_amax(first, inverse_max, all);
  Reg::StoreAlign<float, Reg::StoreDist::DIST_FIRST_ELEMENT_B32>(scale, first, all);
  Reg::StoreAlign<float, Reg::StoreDist::DIST_FIRST_ELEMENT_B32>(out, first, all);
}

template <typename In>
__simd_vf__ inline void encode_piece(__ubuf__ uint8_t* y, __ubuf__ In* x, __ubuf__ float* scale, uint32_t elements) {
  Reg::MaskReg all = Reg::CreateMask<uint8_t, Reg::MaskPattern::ALL>();
  Reg::RegTensor<float> spread;
  Reg::LoadAlign<float, Reg::LoadDist::DIST_BRC_B32>(spread, scale);
  encode_hif8_run(y, x, spread, elements, all);
}

template <typename In>
class Hif8AmaxRows {
 public:
  __aicore__ inline Hif8AmaxRows(AscendC::TPipe& pipe, GM_ADDR x, GM_ADDR partials, const Hif8Tiling& tiling)
      : tiling_(tiling) {
    x_.SetGlobalBuffer(x);
    partials_.SetGlobalBuffer(partials);
    pipe.InitBuffer(in_, 2, tiling.wide_bytes);
    pipe.InitBuffer(out_, 2, kUbBlock);
    pipe.InitBuffer(amax_, tiling.amax_bytes);
  }

  __aicore__ inline void run() {
    const Share share = share_of(tiling_.rows * tiling_.parts);
    for (uint64_t unit = share.begin; unit < share.end; ++unit) part(unit);
  }

 private:
  __aicore__ inline void part(uint64_t unit) {
    using Bits = BitsOf<In>;
    const uint64_t row = unit / tiling_.parts, begin = unit % tiling_.parts * tiling_.part;
    const uint64_t end = begin + tiling_.part < tiling_.cols ? begin + tiling_.part : tiling_.cols;
    LocalTensor<uint8_t> amax = amax_.template Get<uint8_t>();
    asc_vf_call<clear_register<Bits>>((__ubuf__ Bits*)amax.GetPhyAddr());
    for (uint64_t column = begin; column < end; column += tiling_.chunk) {
      const uint32_t cols = end - column < tiling_.chunk ? static_cast<uint32_t>(end - column) : tiling_.chunk;
      LocalTensor<uint8_t> x = in_.template AllocTensor<uint8_t>();
      copy_in(x, x_[(row * tiling_.cols + column) * sizeof(In)], 1, cols * sizeof(In), 0, 0);
      in_.EnQue(x);
      x = in_.template DeQue<uint8_t>();
      asc_vf_call<add_to_amax<In>>((__ubuf__ Bits*)amax.GetPhyAddr(), (__ubuf__ In*)x.GetPhyAddr(), cols);
      in_.FreeTensor(x);
    }
    LocalTensor<uint8_t> out = out_.template AllocTensor<uint8_t>();
    asc_vf_call<finish_amax<In>>((__ubuf__ float*)out.GetPhyAddr(), (__ubuf__ Bits*)amax.GetPhyAddr());
    out_.EnQue(out);
    out = out_.template DeQue<uint8_t>();
    copy_out(partials_[unit * sizeof(float)], out, 1, sizeof(float), 0, 0);
    out_.FreeTensor(out);
  }

  Hif8Tiling tiling_;
  GlobalTensor<uint8_t> x_, partials_;
  AscendC::TQue<TPosition::VECIN, 2> in_;
  AscendC::TQue<TPosition::VECOUT, 2> out_;
  AscendC::TBuf<TPosition::VECCALC> amax_;
};

template <typename In>
class Hif8QuantRows {
 public:
  __aicore__ inline Hif8QuantRows(AscendC::TPipe& pipe, GM_ADDR x, GM_ADDR partials, GM_ADDR y, GM_ADDR scale,
                                  const Hif8Tiling& tiling)
      : tiling_(tiling) {
    x_.SetGlobalBuffer(x);
    partials_.SetGlobalBuffer(partials);
    y_.SetGlobalBuffer(y);
    scale_.SetGlobalBuffer(scale);
    pipe.InitBuffer(in_, 2, tiling.wide_bytes);
    pipe.InitBuffer(out_, 2, tiling.narrow_bytes);
    pipe.InitBuffer(scale_out_, 2, tiling.scale_bytes);
    if (tiling.parts == 0) return;
    pipe.InitBuffer(partial_in_, 2, tiling.partial_bytes);
    pipe.InitBuffer(kept_, tiling.amax_bytes);
  }

  __aicore__ inline void run() {
    const Share share = share_of(tiling_.rows * tiling_.chunks);
    for (uint64_t unit = share.begin; unit < share.end;) {
      const uint64_t left = share.end - unit;
      const uint32_t rows = left < tiling_.tile_rows ? static_cast<uint32_t>(left) : tiling_.tile_rows;
      if (tiling_.parts == 0) {
        whole_rows(unit, rows);
      } else {
        const uint64_t row = unit / tiling_.chunks, piece = unit % tiling_.chunks;
        if (unit == share.begin || piece == 0) load_scale(row, piece == 0);
        encode(row * tiling_.cols + piece * tiling_.chunk, tiling_.cols - piece * tiling_.chunk);
      }
      unit += rows;
    }
  }

 private:
  __aicore__ inline void whole_rows(uint64_t row, uint32_t rows) {
    const uint32_t cols = static_cast<uint32_t>(tiling_.cols), pitch = round_up(cols, kTail);
    LocalTensor<uint8_t> x = in_.template AllocTensor<uint8_t>();
    copy_in(x, x_[row * cols * sizeof(In)], rows, cols * sizeof(In), cols * sizeof(In), pitch * sizeof(In));
    in_.EnQue(x);
    x = in_.template DeQue<uint8_t>();
    LocalTensor<uint8_t> y = out_.template AllocTensor<uint8_t>(), scale = scale_out_.template AllocTensor<uint8_t>();
    asc_vf_call<hif8_whole_rows<In>>((__ubuf__ In*)x.GetPhyAddr(), (__ubuf__ uint8_t*)y.GetPhyAddr(),
                                     (__ubuf__ float*)scale.GetPhyAddr(), static_cast<uint16_t>(rows), cols, pitch,
                                     tiling_.inverse_max);
    in_.FreeTensor(x);
    out_.EnQue(y);
    scale_out_.EnQue(scale);
    y = out_.template DeQue<uint8_t>();
    copy_out(y_[row * cols], y, rows, cols, cols, pitch);
    out_.FreeTensor(y);
    scale = scale_out_.template DeQue<uint8_t>();
    copy_out(scale_[row * sizeof(float)], scale, 1, rows * static_cast<uint32_t>(sizeof(float)), 0, 0);
    scale_out_.FreeTensor(scale);
  }

  __aicore__ inline void load_scale(uint64_t row, bool write) {
    LocalTensor<uint8_t> partials = partial_in_.template AllocTensor<uint8_t>();
    copy_in(partials, partials_[row * tiling_.parts * sizeof(float)], 1,
            tiling_.parts * static_cast<uint32_t>(sizeof(float)), 0, 0);
    partial_in_.EnQue(partials);
    partials = partial_in_.template DeQue<uint8_t>();
    LocalTensor<uint8_t> scale = scale_out_.template AllocTensor<uint8_t>(), kept = kept_.template Get<uint8_t>();
    asc_vf_call<combine_partials>((__ubuf__ float*)kept.GetPhyAddr(), (__ubuf__ float*)scale.GetPhyAddr(),
                                  (__ubuf__ float*)partials.GetPhyAddr(), tiling_.parts, tiling_.inverse_max);
    partial_in_.FreeTensor(partials);
    scale_out_.EnQue(scale);
    scale = scale_out_.template DeQue<uint8_t>();
    if (write) copy_out(scale_[row * sizeof(float)], scale, 1, sizeof(float), 0, 0);
    scale_out_.FreeTensor(scale);
  }

  __aicore__ inline void encode(uint64_t first, uint64_t left) {
    const uint32_t cols = left < tiling_.chunk ? static_cast<uint32_t>(left) : tiling_.chunk;
    LocalTensor<uint8_t> x = in_.template AllocTensor<uint8_t>();
    copy_in(x, x_[first * sizeof(In)], 1, cols * sizeof(In), 0, 0);
    in_.EnQue(x);
    x = in_.template DeQue<uint8_t>();
    LocalTensor<uint8_t> y = out_.template AllocTensor<uint8_t>(), kept = kept_.template Get<uint8_t>();
    asc_vf_call<encode_piece<In>>((__ubuf__ uint8_t*)y.GetPhyAddr(), (__ubuf__ In*)x.GetPhyAddr(),
                                  (__ubuf__ float*)kept.GetPhyAddr(), round_up(cols, kTail));
    in_.FreeTensor(x);
    out_.EnQue(y);
    y = out_.template DeQue<uint8_t>();
    copy_out(y_[first], y, 1, cols, 0, 0);
    out_.FreeTensor(y);
  }

  Hif8Tiling tiling_;
  GlobalTensor<uint8_t> x_, partials_, y_, scale_;
  AscendC::TQue<TPosition::VECIN, 2> in_, partial_in_;
  AscendC::TQue<TPosition::VECOUT, 2> out_, scale_out_;
  AscendC::TBuf<TPosition::VECCALC> kept_;
};

}  // namespace npu_lp::ascend
