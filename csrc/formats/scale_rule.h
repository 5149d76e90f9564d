// How the largest magnitude of an MX block becomes its scale byte (semantics.md section 2.1).
//
// Every rule takes the block's amax as fp32 bits without sign, found by integer comparison, so that NaN > Inf > finite;
// bf16 and fp16 widen to fp32 exactly.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "formats/bits.h"
#include "formats/e8m0.h"

namespace npu_lp {

enum class ScaleRule {
  kFloor,       // scale_alg 0: OCP MX v1.0 section 6.3, the exponent of amax less that of the format's maximum
  kRceil,       // scale_alg 1: amax / maximum of the format, rounded up to a power of two
  kDtypeRange,  // scale_alg 2 (FP4): like rceil, on a bf16 amax, for a chosen maximum
};

// What happens to the elements of a block whose scale byte is 0 (semantics.md section 2.3). The device kernels differ;
// the default is what the byte means.
enum class Underflow {
  kOcp,             // quantize with the reciprocal of byte 0, 2^127
  kFlushEmax,       // zeros when amax's exponent field is at most emax: npu_dynamic_mx_quant
  kFlushSubnormal,  // zeros when amax's exponent field is 0: dual-axis and block kernels
};

inline uint32_t scale_floor(uint32_t amax_bits, int emax) {
  const int exponent = static_cast<int>(amax_bits >> 23);
  return exponent == 255 ? kNaNScale : static_cast<uint32_t>(std::max(exponent - emax, 0));
}

// Rounds amax * inverse_max up to a power of two. `inverse_max` is fl32(1/max); multiplying by it gives the same byte
// as dividing by max. The product may be subnormal, so FTZ and DAZ must be off.
inline uint32_t scale_rceil(uint32_t amax_bits, float inverse_max) {
  if (amax_bits >= kExpMask) return kNaNScale;
  const uint32_t quotient = bits_of(float_of(amax_bits) * inverse_max);
  const uint32_t exponent = quotient >> 23;
  const uint32_t mantissa = quotient & 0x007FFFFFu;
  const bool up = exponent == 0 ? mantissa > 0x00400000u : mantissa > 0 && exponent < 254;
  return exponent + (up ? 1u : 0u);
}

// fp32 amax bits -> bf16, as the dtype_range kernels see it. fp32 input is truncated by the last-axis kernel and
// rounded to nearest by the others; fp16 input is always rounded (semantics.md, item 9); bf16 input is exact either
// way.
inline uint32_t amax_as_bf16(uint32_t amax_bits, bool truncate) {
  if (amax_bits >= kExpMask || truncate) return amax_bits & 0xFFFF0000u;
  return static_cast<uint32_t>(narrow_bf16(float_of(amax_bits))) << 16;
}

// dst_max is the value that the block's maximum may reach after scaling, 0 meaning the format's own. For 6, 7 and 1.875
// the device compares the bf16 mantissa; for any other it multiplies as rceil does, without the rule for subnormals.
inline uint32_t scale_dtype_range(uint32_t amax_bf16, float dst_max, int emax) {
  const uint32_t exponent = amax_bf16 >> 23;
  if (exponent == 255) return kNaNScale;
  uint32_t first_mantissa_up = 0;
  if (dst_max == 6.0f) first_mantissa_up = 65;     // above 1.5 * 2^k
  if (dst_max == 7.0f) first_mantissa_up = 97;     // above 1.75 * 2^k
  if (dst_max == 1.875f) first_mantissa_up = 113;  // above 1.875 * 2^k
  if (first_mantissa_up != 0) {
    if (exponent < 2) return 0;
    const uint32_t mantissa = amax_bf16 >> 16 & 0x7Fu;
    return exponent - static_cast<uint32_t>(emax) + (mantissa >= first_mantissa_up ? 1u : 0u);
  }
  const uint32_t quotient = bits_of(float_of(amax_bf16) * (1.0f / dst_max));
  const uint32_t result = quotient >> 23;
  return result + (result > 0 && result < 254 && (quotient & 0x007FFFFFu) > 0 ? 1u : 0u);
}

}  // namespace npu_lp
