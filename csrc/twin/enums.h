// Keywords, constants and enumerations of AscendC that kernels name, as far as the twin has a meaning for them.
#pragma once

#include <cstdint>

#include "twin/record.h"

// Address spaces and kernel kinds are the device compiler's business: on the host they mean nothing.
#define __aicore__
#define __global__
#define __vector__
#define __cube__
#define __mix__(...)
#define __schedmode__(...)
#define __simd_vf__
#define __simd_callee__
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__
#define __biasbuf__
#define __fbuf__
#define __local_mem__
#define GM_ADDR __gm__ uint8_t*

// What the twin stands for, and how a kernel may tell that it runs in it.
#define __NPU_ARCH__ 3510
#define NPU_LP_TWIN 1

#ifndef ASSERT
#define ASSERT(x)
#endif
#define ASCENDC_ASSERT(cond, ...)
#define KERNEL_LOG(...)

enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL = 6, PIPE_FIX = 10 };
enum event_t { EVENT_ID0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 };

namespace AscendC {

using TEventID = int8_t;
using TTagType = int32_t;

enum class TPosition : uint8_t {
  GM,
  A1,
  A2,
  B1,
  B2,
  C1,
  C2,
  CO1,
  CO2,
  VECIN,
  VECOUT,
  VECCALC,
  LCM = VECCALC,
  SPM,
  SHM = SPM,
  TSCM,
  C2PIPE2GM,
  C2PIPE2LOCAL,
  MAX
};
using QuePosition = TPosition;

enum class Hardware : uint8_t { GM, UB, L1, L0A, L0B, L0C, BIAS, FIXBUF, MAX };

enum class HardEvent : uint8_t {
  MTE2_MTE1,
  MTE1_MTE2,
  MTE1_M,
  M_MTE1,
  MTE2_V,
  V_MTE2,
  MTE3_V,
  V_MTE3,
  M_V,
  V_M,
  V_V,
  MTE3_MTE1,
  MTE1_MTE3,
  MTE1_V,
  MTE2_M,
  M_MTE2,
  V_MTE1,
  M_FIX,
  FIX_M,
  MTE3_MTE2,
  MTE2_MTE3,
  S_V,
  V_S,
  S_MTE2,
  MTE2_S,
  S_MTE3,
  MTE3_S,
  MTE2_FIX,
  FIX_MTE2,
  FIX_S,
  M_S,
  FIX_MTE3,
  MTE1_FIX,
  FIX_MTE1,
  FIX_FIX,
  MAX
};

enum class RoundMode : uint8_t {
  CAST_NONE,
  CAST_RINT,
  CAST_FLOOR,
  CAST_CEIL,
  CAST_ROUND,
  CAST_TRUNC,
  CAST_ODD,
  CAST_HYBRID,
  CAST_EVEN,
  CAST_ZERO,
  UNKNOWN = 0xFF
};
enum class CMPMODE : uint8_t { LT, GT, EQ, LE, GE, NE };
enum class PaddingMode : uint8_t { Normal, Compact };
enum class CacheMode { CACHE_MODE_DISABLE = 0, CACHE_MODE_NORMAL = 1, CACHE_MODE_LAST = 2, CACHE_MODE_PERSISTENT = 4 };
enum class CacheRwMode { READ = 1, WRITE = 2, RW = 3 };
enum class TBufState : uint8_t { FREE, OCCUPIED, ENQUE, DEQUE };
enum class MemDsbT : uint8_t { ALL, DDR, UB, SEQ };
enum class DataFormat : uint8_t { ND, NZ, NCHW, NC1HWC0, NHWC, NCDHW, NDC1HWC0, FRACTAL_Z_3D };

constexpr uint32_t ONE_BLK_SIZE = 32;
constexpr uint32_t VECTOR_REG_WIDTH = 256;
constexpr uint32_t TOTAL_UB_SIZE = 248 * 1024;
constexpr uint32_t TOTAL_L1_SIZE = 512 * 1024;
constexpr uint32_t TOTAL_L0A_SIZE = 64 * 1024;
constexpr uint32_t TOTAL_L0B_SIZE = 64 * 1024;
constexpr uint32_t TOTAL_L0C_SIZE = 256 * 1024;

// Tensor traits with static layouts are not modelled: an element type stands for itself.
template <typename T>
using PrimT = T;

template <typename A, typename B>
struct IsSameType {
  static constexpr bool value = __is_same(A, B);
};

}  // namespace AscendC
