// Registers of the vector unit and the enumerations of the register API.
//
// A RegTensor is 256 bytes, a MaskReg one bit for each of them, and both carry a map of what is defined: a lane
// computed from bytes that nobody wrote is undefined, and so is what was selected by an undefined bit. The maps are
// looked at only where `all` is false, so that ordinary data costs one test an instruction.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "twin/enums.h"
#include "twin/types.h"

namespace npu_lp::twin {

constexpr int kRegBytes = 256;

struct RegDefined {
  bool all = false;
  alignas(64) uint8_t defined[kRegBytes] = {};  // 1 where defined; meaningless while `all`

  RegDefined() = default;
  RegDefined(const RegDefined& other) { *this = other; }
  RegDefined& operator=(const RegDefined& other) {
    all = other.all;
    if (!all && this != &other) std::memcpy(defined, other.defined, kRegBytes);
    return *this;
  }
};

// What RegTensor<T> is underneath, whatever T: kernels reinterpret registers by casting references.
struct RegData : RegDefined {
  alignas(64) uint8_t bytes[kRegBytes];
  RegData() { std::memset(bytes, 0xFF, kRegBytes); }
};

template <typename T>
constexpr int kLanes = kRegBytes / static_cast<int>(sizeof(T));

// The lane's bits. A register's bytes are read through these, which alias anything.
template <int BYTES>
struct RawOf;
template <>
struct RawOf<1> {
  using type = uint8_t;
};
template <>
struct RawOf<2> {
  using type = uint16_t;
};
template <>
struct RawOf<4> {
  using type = uint32_t;
};
template <>
struct RawOf<8> {
  using type = uint64_t;
};
template <typename T>
using Raw = typename RawOf<sizeof(T)>::type;
template <typename T>
struct Alias {
  typedef T __attribute__((may_alias)) type;
};

template <typename W>
const typename Alias<W>::type* lanes(const uint8_t* bytes) {
  return reinterpret_cast<const typename Alias<W>::type*>(bytes);
}
template <typename W>
typename Alias<W>::type* lanes(uint8_t* bytes) {
  return reinterpret_cast<typename Alias<W>::type*>(bytes);
}

}  // namespace npu_lp::twin

namespace AscendC {

enum class ReduceType { SUM = 0, MAX, MIN };

namespace Reg {

using ReduceType = AscendC::ReduceType;

enum class RegLayout { UNKNOWN = -1, ZERO, ONE, TWO, THREE };
enum class SatMode { UNKNOWN = -1, NO_SAT, SAT };
enum class MaskMergeMode { UNKNOWN, MERGING, ZEROING };
enum class HighLowPart { LOWEST, HIGHEST };
enum class PostLiteral { POST_MODE_NORMAL, POST_MODE_UPDATE };
enum class MaskPattern { ALL, VL1, VL2, VL3, VL4, VL8, VL16, VL32, VL64, VL128, M3, M4, H, Q, ALLF = 15 };
enum class IndexOrder { INCREASE_ORDER, DECREASE_ORDER };
enum class MaskDist { DIST_NORM, DIST_US = 1, DIST_DS = 2, DIST_PACK = 1 };
enum class MemType { VEC_STORE, VEC_LOAD, SCALAR_STORE, SCALAR_LOAD, VEC_ALL, SCALAR_ALL };
enum class DataCopyMode { DATA_BLOCK_COPY };
enum class LoadDist {
  DIST_NORM,
  DIST_BRC_B8,
  DIST_BRC_B16,
  DIST_BRC_B32,
  DIST_US_B8 = 6,
  DIST_US_B16,
  DIST_DS_B8,
  DIST_DS_B16,
  DIST_BDINTLV,
  DIST_DINTLV_B8,
  DIST_DINTLV_B16,
  DIST_UNPACK_B8,
  DIST_UNPACK_B16,
  DIST_BLK,
  DIST_E2B_B16,
  DIST_E2B_B32,
  DIST_UNPACK_B32,
  DIST_DINTLV_B32,
  DIST_UNPACK4_B8,
};
enum class StoreDist {
  DIST_NORM_B8,
  DIST_NORM_B16,
  DIST_NORM_B32,
  DIST_FIRST_ELEMENT_B8,
  DIST_FIRST_ELEMENT_B16,
  DIST_FIRST_ELEMENT_B32,
  DIST_PACK_B16,
  DIST_PACK_B32,
  DIST_INTLV_B8,
  DIST_INTLV_B16,
  DIST_PACK_B64,
  DIST_INTLV_B32,
  DIST_PACK4_B32,
  DIST_NORM = 16,
};

// Stands for "whatever the registers say" where a template argument may name the element type.
struct DefaultType {};

struct CastTrait {
  RegLayout layoutMode = RegLayout::UNKNOWN;
  SatMode satMode = SatMode::UNKNOWN;
  MaskMergeMode mrgMode = MaskMergeMode::UNKNOWN;
  RoundMode roundMode = RoundMode::UNKNOWN;
};
constexpr CastTrait castTrait = {};

// Algorithms differ in the last bit and in subnormals on the device; the twin always rounds correctly.
enum class DivAlgo {
  INTRINSIC = 0,
  DIFF_COMPENSATION,
  PRECISION_1ULP_FTZ_TRUE,
  PRECISION_0ULP_FTZ_TRUE,
  PRECISION_0ULP_FTZ_FALSE,
  PRECISION_1ULP_FTZ_FALSE
};
enum class ExpAlgo { INTRINSIC = 0, PRECISION_1ULP_FTZ_TRUE, PRECISION_1ULP_FTZ_FALSE };
using LnAlgo = ExpAlgo;
enum class SqrtAlgo {
  INTRINSIC = 0,
  FAST_INVERSE,
  PRECISION_1ULP_FTZ_TRUE,
  PRECISION_0ULP_FTZ_FALSE,
  PRECISION_1ULP_FTZ_FALSE
};
struct DivSpecificMode {
  MaskMergeMode mrgMode = MaskMergeMode::ZEROING;
  bool precisionMode = false;
  DivAlgo algo = DivAlgo::INTRINSIC;
};
struct ExpSpecificMode {
  MaskMergeMode mrgMode = MaskMergeMode::ZEROING;
  ExpAlgo algo = ExpAlgo::INTRINSIC;
};
struct LnSpecificMode {
  MaskMergeMode mrgMode = MaskMergeMode::ZEROING;
  LnAlgo algo = LnAlgo::INTRINSIC;
};
struct SqrtSpecificMode {
  MaskMergeMode mrgMode = MaskMergeMode::ZEROING;
  bool precisionMode = false;
  SqrtAlgo algo = SqrtAlgo::INTRINSIC;
};

struct RegTrait {
  int REG_NUM = 1;
};
inline constexpr RegTrait RegTraitNumOne = {1};
inline constexpr RegTrait RegTraitNumTwo = {2};

template <typename T, const RegTrait& regTrait = RegTraitNumOne>
struct RegTensor : npu_lp::twin::RegData {
  static_assert(regTrait.REG_NUM == 1, "the twin has no registers of RegTraitNumTwo");
  using ActualT = T;
  static constexpr RegTrait trait = regTrait;
};

// Bit i belongs to byte i of a register and is kept in a byte of its own, 0 or 1: the lowest bit of a lane governs it.
struct MaskReg : npu_lp::twin::RegDefined {
  alignas(64) uint8_t bits[npu_lp::twin::kRegBytes] = {};
};

// The 32 bytes that an unaligned access keeps for the next one.
struct UnalignRegForLoad {
  bool loaded = false;
  uint64_t block = 0;  // UB address of the bytes
  uint8_t bytes[32] = {};
  uint8_t defined[32] = {};
};
struct UnalignRegForStore {
  uint32_t pending = 0;  // bytes not yet stored
  uint64_t end = 0;      // UB address behind them
  uint8_t bytes[32] = {};
  uint8_t defined[32] = {};
};

struct AddrReg {
  uint32_t offset = 0;  // elements
};

}  // namespace Reg

namespace MicroAPI = Reg;
using Reg::DivAlgo;
using Reg::ExpAlgo;
using Reg::LnAlgo;
using Reg::SqrtAlgo;

constexpr uint32_t GetVecLen() {
  return npu_lp::twin::kRegBytes;
}

}  // namespace AscendC

namespace npu_lp::twin {

template <typename R>
struct IsReg : std::false_type {};
template <typename T, const AscendC::Reg::RegTrait& trait>
struct IsReg<AscendC::Reg::RegTensor<T, trait>> : std::true_type {};

// A RegTensor, and what its T is.
template <typename R>
concept Register = IsReg<R>::value;
template <Register R>
using ElementOf = typename R::ActualT;

// Explicit template arguments must agree with the registers.
template <typename T, typename ACTUAL>
constexpr bool kNames = std::is_same_v<T, AscendC::Reg::DefaultType> || std::is_same_v<T, ACTUAL>;

template <typename T, typename... LIST>
constexpr bool kOneOf = (std::is_same_v<T, LIST> || ...);

template <typename T>
constexpr bool kIsInt = std::is_integral_v<T>;
template <typename T>
constexpr bool kIsFloat = kOneOf<T, float, half, bfloat16_t>;

}  // namespace npu_lp::twin

namespace AscendC::Reg {
using npu_lp::twin::kNames;
using npu_lp::twin::Loc;
using npu_lp::twin::Register;
}  // namespace AscendC::Reg
