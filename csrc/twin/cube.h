// The cube side of AscendC: GM -> L1 with a change of layout, Fill, L1 -> L0, Mmad, MmadMx, Fixpipe. Templates check
// types and hand tensors on as bytes; the work is in cube_*.cpp.
#pragma once

#include <cstring>
#include <type_traits>

#include "twin/cube_engine.h"
#include "twin/cube_params.h"
#include "twin/data_copy.h"
#include "twin/tensor.h"

namespace npu_lp::twin::cube {

template <typename T>
constexpr Elem elem_of() {
  if constexpr (std::is_same_v<T, fp8_e4m3fn_t>) {
    return Elem::kE4M3;
  } else if constexpr (std::is_same_v<T, fp8_e5m2_t>) {
    return Elem::kE5M2;
  } else if constexpr (std::is_same_v<T, fp4x2_e2m1_t>) {
    return Elem::kE2M1;
  } else if constexpr (std::is_same_v<T, fp4x2_e1m2_t>) {
    return Elem::kE1M2;
  } else if constexpr (std::is_same_v<T, hifloat8_t>) {
    return Elem::kHiF8;
  } else if constexpr (std::is_same_v<T, half>) {
    return Elem::kHalf;
  } else if constexpr (std::is_same_v<T, bfloat16_t>) {
    return Elem::kBFloat16;
  } else if constexpr (std::is_same_v<T, float>) {
    return Elem::kFloat;
  } else {
    return Elem::kByte;
  }
}

template <typename T>
Region region(const AscendC::LocalTensor<T>& tensor) {
  return {tensor.space(), tensor.begin(), tensor.end()};
}
template <typename T>
Region region(const AscendC::GlobalTensor<T>& tensor) {
  return {Space::kGM, tensor.begin(), tensor.end()};
}

template <typename A, typename B>
constexpr bool mx_pair = (is_fp8<A> && is_fp8<B>) || (is_fp4<A> && is_fp4<B>);

template <typename A, typename B>
constexpr bool plain_pair =
    (is_fp8<A> && is_fp8<B>) || (std::is_same_v<A, B> && (std::is_same_v<A, hifloat8_t> || std::is_same_v<A, half> ||
                                                          std::is_same_v<A, bfloat16_t>));

}  // namespace npu_lp::twin::cube

namespace AscendC {

// GM -> L1 (MTE2). fp4 is copied as bytes: its fields count bytes.
template <typename T, bool enableSmallC0 = false>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Nd2NzParams& p,
              npu_lp::twin::Loc loc = npu_lp::twin::Loc::here()) {
  static_assert(!enableSmallC0, "the twin does not model the small-C0 mode");
  namespace cube = npu_lp::twin::cube;
  cube::copy_to_nz(cube::region(dst), cube::region(src), sizeof(T),
                   {"DataCopy with Nd2NzParams", false, p.ndNum, p.nValue, p.dValue, p.srcNdMatrixStride, p.srcDValue,
                    p.dstNzC0Stride, p.dstNzNStride, p.dstNzMatrixStride},
                   loc);
}

template <typename T, bool enableSmallC0 = false>
void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const Dn2NzParams& p,
              npu_lp::twin::Loc loc = npu_lp::twin::Loc::here()) {
  static_assert(!enableSmallC0, "the twin does not model the small-C0 mode");
  static_assert(!npu_lp::twin::is_fp4<T>, "a byte of fp4 holds two columns: Dn2Nz moves bytes and cannot part them");
  namespace cube = npu_lp::twin::cube;
  cube::copy_to_nz(cube::region(dst), cube::region(src), sizeof(T),
                   {"DataCopy with Dn2NzParams", true, p.dnNum, p.nValue, p.dValue, p.srcDnMatrixStride, p.srcDValue,
                    p.dstNzC0Stride, p.dstNzNStride, p.dstNzMatrixStride},
                   loc);
}

// Constants into L1 (MTE2).
template <typename T, typename U = T>
void Fill(const LocalTensor<T>& dst, const InitConstValueParams<U>& p,
          npu_lp::twin::Loc loc = npu_lp::twin::Loc::here()) {
  static_assert(std::is_same_v<T, U>, "Fill: the value has the type of the tensor");
  static_assert(sizeof(T) == 2 || sizeof(T) == 4,
                "Fill takes 2-byte and 4-byte types; use ReinterpretCast<uint16_t>()");
  uint32_t bits = 0;
  std::memcpy(&bits, &p.initValue, sizeof(T));
  namespace cube = npu_lp::twin::cube;
  cube::fill(cube::region(dst), p.repeatTimes, p.blockNum, p.dstGap, bits, sizeof(T), loc);
}
template <typename T, typename U = T>
void InitConstValue(const LocalTensor<T>& dst, const InitConstValueParams<U>& p,
                    npu_lp::twin::Loc loc = npu_lp::twin::Loc::here()) {
  Fill(dst, p, loc);
}

// L1 -> L0A, L0B (MTE1), without scales.
template <typename T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src, const LoadData2DParamsV2& p,
              npu_lp::twin::Loc loc = npu_lp::twin::Loc::here()) {
  using npu_lp::twin::element_bits;
  static_assert(element_bits<T> <= 16, "the twin models LoadData of 4-, 8- and 16-bit elements");
  namespace cube = npu_lp::twin::cube;
  cube::load(cube::region(dst), cube::region(src), nullptr, element_bits<T>, p, LoadData2DMxParams(), loc);
}

// With scales: they go to byte (L0 address / 16) of the scale memory beside L0A or L0B.
template <typename T, typename U = T>
void LoadData(const LocalTensor<U>& dst, const LocalTensor<T>& src, const LocalTensor<fp8_e8m0_t>& srcMx,
              const LoadData2DParamsV2& p, const LoadData2DMxParams& mx,
              npu_lp::twin::Loc loc = npu_lp::twin::Loc::here()) {
  using namespace npu_lp::twin;
  static_assert(std::is_same_v<T, U> && (is_fp8<T> || is_fp4<T>),
                "LoadData with scales takes fp8_e4m3fn_t, fp8_e5m2_t, fp4x2_e2m1_t and fp4x2_e1m2_t");
  const cube::Region scales = cube::region(srcMx);
  cube::load(cube::region(dst), cube::region(src), &scales, element_bits<T>, p, mx, loc);
}

// L1 -> bias table (MTE1).
template <typename T, typename U>
void DataCopy(const LocalTensor<T>& dst, const LocalTensor<U>& src, const DataCopyParams& p,
              npu_lp::twin::Loc loc = npu_lp::twin::Loc::here()) {
  static_assert((std::is_same_v<T, U> && (std::is_same_v<T, float> || std::is_same_v<T, half>)) ||
                    (std::is_same_v<T, float> && std::is_same_v<U, half>),
                "a copy to the bias table keeps the type or turns half into float");
  namespace cube = npu_lp::twin::cube;
  cube::load_bias(cube::region(dst), cube::elem_of<T>(), cube::region(src), cube::elem_of<U>(), p.blockCount,
                  p.blockLen, p.srcGap, p.dstGap, loc);
}

// C = A * B (+ bias | + C), fp32 in L0C (M).
template <typename T, typename U, typename S>
void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter, const MmadParams& p,
          npu_lp::twin::Loc loc = npu_lp::twin::Loc::here()) {
  namespace cube = npu_lp::twin::cube;
  static_assert(std::is_same_v<T, float> && cube::plain_pair<U, S>, "Mmad does not have this combination of types");
  cube::mmad(cube::region(dst), cube::region(fm), cube::elem_of<U>(), cube::region(filter), cube::elem_of<S>(), nullptr,
             false, p, loc);
}

template <typename T, typename U, typename S, typename V>
void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter, const LocalTensor<V>& bias,
          const MmadParams& p, npu_lp::twin::Loc loc = npu_lp::twin::Loc::here()) {
  namespace cube = npu_lp::twin::cube;
  static_assert(std::is_same_v<T, float> && std::is_same_v<V, float> && cube::plain_pair<U, S>,
                "Mmad does not have this combination of types");
  const cube::Region table = cube::region(bias);
  cube::mmad(cube::region(dst), cube::region(fm), cube::elem_of<U>(), cube::region(filter), cube::elem_of<S>(), &table,
             false, p, loc);
}

// C = (scaleA . A) * (scaleB . B) (+ bias | + C).
template <typename T, typename U, typename S>
void MmadMx(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter, const MmadParams& p,
            npu_lp::twin::Loc loc = npu_lp::twin::Loc::here()) {
  namespace cube = npu_lp::twin::cube;
  static_assert(std::is_same_v<T, float> && cube::mx_pair<U, S>,
                "MmadMx multiplies fp8 with fp8 or fp4 with fp4, into float");
  cube::mmad(cube::region(dst), cube::region(fm), cube::elem_of<U>(), cube::region(filter), cube::elem_of<S>(), nullptr,
             true, p, loc);
}

template <typename T, typename U, typename S, typename V>
void MmadMx(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
            const LocalTensor<V>& bias, const MmadParams& p, npu_lp::twin::Loc loc = npu_lp::twin::Loc::here()) {
  namespace cube = npu_lp::twin::cube;
  static_assert(std::is_same_v<T, float> && std::is_same_v<V, float> && cube::mx_pair<U, S>,
                "MmadMx multiplies fp8 with fp8 or fp4 with fp4, into float, with a float bias");
  const cube::Region table = cube::region(bias);
  cube::mmad(cube::region(dst), cube::region(fm), cube::elem_of<U>(), cube::region(filter), cube::elem_of<S>(), &table,
             true, p, loc);
}

// In which direction Mmad goes through C: with unit flags the order in which fractals become free. No result depends on
// it.
inline void SetMMRowMajor() {}
inline void SetMMColumnMajor() {}
inline void SetMMLayoutTransform(bool) {}

// L0C -> GM (FIX).
template <typename T, typename U, const FixpipeConfig& config = CFG_ROW_MAJOR>
void Fixpipe(const GlobalTensor<T>& dst, const LocalTensor<U>& src, const FixpipeParamsArch3510<config.format>& p,
             npu_lp::twin::Loc loc = npu_lp::twin::Loc::here()) {
  static_assert(std::is_same_v<U, float>, "the twin's L0C holds float");
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, half> || std::is_same_v<T, bfloat16_t>,
                "the twin models Fixpipe into float, half and bfloat16_t");
  static_assert(!config.isToUB, "the twin models Fixpipe into GM");
  namespace cube = npu_lp::twin::cube;
  cube::FixpipeArgs args = {config.format, p.nSize,    p.mSize, p.srcStride, p.dstStride, p.quantPre,
                            p.deqScalar,   p.unitFlag, 1,       1,           false};
  if constexpr (config.format == CO2Layout::ROW_MAJOR) args.matrices = p.params.ndNum;
  if constexpr (config.format == CO2Layout::COLUMN_MAJOR) {
    args.matrices = p.params.dnNum;
    args.row_stride = p.params.srcNzC0Stride;
  }
  args.plain = !p.reluEn && p.preReluMode == ReluMode::NO_RELU && p.preClipReluMode == ClipReluMode::NOCLIP_RELU &&
               !p.isChannelSplit && p.dualDstCtl == 0;
  cube::fixpipe(cube::region(dst), cube::elem_of<T>(), cube::region(src), args, loc);
}

}  // namespace AscendC
