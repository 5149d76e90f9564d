// Floats out of registers: pairs of fp32 registers, even and odd elements, to the type of an output.
#pragma once

#include "ascend/kernels/quant_registers.h"

namespace npu_lp::ascend {

// Every NaN leaves as the canonical one, as from the other backends.
__simd_callee__ inline void canonical(Reg::RegTensor<float>& value, Reg::RegTensor<uint32_t>& nan, Reg::MaskReg& all) {
  Reg::MaskReg differs;
  Reg::Compare<float, CMPMODE::NE>(differs, value, value, all);
  Reg::Select(value, (Reg::RegTensor<float>&)nan, value, differs);
}

// 128 values in order. The masks are of the output's lanes: 128 for 16 bits, or 64 and 64.
template <typename Out>
__simd_callee__ inline void store_values(__ubuf__ Out* out, Reg::RegTensor<float>& even, Reg::RegTensor<float>& odd,
                                         Reg::RegTensor<uint32_t>& nan, Reg::MaskReg& all, Reg::MaskReg& stored,
                                         Reg::MaskReg& stored2) {
  if constexpr (sizeof(Out) == 4) {
    canonical(even, nan, all);
    canonical(odd, nan, all);
    Reg::RegTensor<float> low, high;
    Reg::Interleave(low, high, even, odd);
    Reg::StoreAlign(out, low, stored);
    Reg::StoreAlign(out + kLanes, high, stored2);
  } else {
    Reg::RegTensor<Out> low, high;
    Reg::Cast<Out, float, kCast<Reg::RegLayout::ZERO, Reg::SatMode::NO_SAT, RoundMode::CAST_RINT>>(low, even, all);
    Reg::Cast<Out, float, kCast<Reg::RegLayout::ONE, Reg::SatMode::NO_SAT, RoundMode::CAST_RINT>>(high, odd, all);
    Reg::RegTensor<uint16_t> both;
    Reg::Or(both, (Reg::RegTensor<uint16_t>&)low, (Reg::RegTensor<uint16_t>&)high, all);
    Reg::StoreAlign((__ubuf__ uint16_t*)out, both, stored);
  }
}

// The masks of store_values() for the next 128 of `left` elements.
template <typename Out>
__simd_callee__ inline void next_masks(Reg::MaskReg& stored, Reg::MaskReg& stored2, uint32_t& left) {
  stored = Reg::UpdateMask<BitsOf<Out>>(left);
  if constexpr (sizeof(Out) == 4) stored2 = Reg::UpdateMask<uint32_t>(left);
}

}  // namespace npu_lp::ascend
