// DataCopy and DataCopyPad between GM and UB (and plain copies GM -> L1), and Duplicate. The parameters are turned into
// rows and pitches in bytes here; data_copy.cpp checks and moves them.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "twin/enums.h"
#include "twin/machine.h"
#include "twin/tensor.h"
#include "twin/types.h"

namespace AscendC {

template <typename T>
struct GetPadValueType {
  using Type = std::conditional_t<std::is_class_v<T> && sizeof(T) == 1, uint8_t, T>;
};

struct DataCopyParams {
  DataCopyParams() {}
  DataCopyParams(uint16_t count, uint16_t length, uint16_t source_gap, uint16_t destination_gap)
      : blockCount(count), blockLen(length), srcGap(source_gap), dstGap(destination_gap) {}
  uint16_t blockCount = 1;
  uint16_t blockLen = 0;
  union {
    uint16_t srcGap = 0;
    uint16_t srcStride;
  };
  union {
    uint16_t dstGap = 0;
    uint16_t dstStride;
  };
};

struct DataCopyExtParams {
  DataCopyExtParams() {}
  DataCopyExtParams(uint16_t count, uint32_t length, int64_t source_stride, int64_t destination_stride,
                    uint32_t reserved)
      : blockCount(count), blockLen(length), srcStride(source_stride), dstStride(destination_stride), rsv(reserved) {}
  uint16_t blockCount = 1;
  uint32_t blockLen = 0;
  int64_t srcStride = 0;
  int64_t dstStride = 0;
  uint32_t rsv = 0;
};

struct DataCopyPadParams {
  DataCopyPadParams() {}
  DataCopyPadParams(bool pad, uint8_t left, uint8_t right, uint64_t value)
      : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}
  bool isPad = false;
  uint8_t leftPadding = 0;
  uint8_t rightPadding = 0;
  uint64_t paddingValue = 0;
};

template <typename T>
struct DataCopyPadExtParams {
  using TYPE = typename GetPadValueType<T>::Type;
  DataCopyPadExtParams() {}
  DataCopyPadExtParams(bool pad, uint8_t left, uint8_t right, T value)
      : isPad(pad), leftPadding(left), rightPadding(right) {
    std::memcpy(&paddingValue, &value, sizeof(T));
  }
  bool isPad = false;
  uint8_t leftPadding = 0;
  uint8_t rightPadding = 0;
  TYPE paddingValue = TYPE(0);
};

enum class DataCopyMVType : uint8_t { UB_TO_OUT, OUT_TO_UB };

struct LoopModeParams {
  LoopModeParams() {}
  LoopModeParams(uint32_t size1, uint32_t size2, uint64_t source1, uint64_t destination1, uint64_t source2,
                 uint64_t destination2)
      : loop1Size(size1),
        loop2Size(size2),
        loop1SrcStride(source1),
        loop1DstStride(destination1),
        loop2SrcStride(source2),
        loop2DstStride(destination2) {}
  uint32_t loop1Size = 0;
  uint32_t loop2Size = 0;
  uint64_t loop1SrcStride = 0;
  uint64_t loop1DstStride = 0;
  uint64_t loop2SrcStride = 0;
  uint64_t loop2DstStride = 0;
};

}  // namespace AscendC

namespace npu_lp::twin {

// A copy between GM and a local memory, all in bytes.
struct Copy {
  const char* what;     // the call, for reports
  uint64_t gm = 0;      // host address
  uint64_t gm_end = 0;  // of the GlobalTensor
  Space space = Space::kUB;
  uint64_t local = 0;  // address in the local memory
  uint64_t local_end = 0;
  uint32_t rows = 0;
  uint32_t row_bytes = 0;
  uint64_t gm_pitch = 0;
  uint64_t local_pitch = 0;
  bool compact = false;
  bool pad = false;   // padding has a value, otherwise it is undefined
  uint32_t left = 0;  // padding in front of and behind each row
  uint32_t right = 0;
  uint32_t element = 1;  // bytes of an element of padding
  uint64_t value = 0;    // of padding, as bits
  bool loops = false;    // SetLoopModePara applies
  AtomicType type = AtomicType::kNone;
};

void copy_in(Copy copy, Loc loc);
void copy_out(Copy copy, Loc loc);

// Checks of the parameters as given: count <= 4095, length <= limit.
void check_blocks(const char* what, uint64_t count, uint64_t length, uint64_t limit, const char* unit, Loc loc);
// A pitch of `length` and a gap between `lowest` and `highest`.
uint64_t pitch_of(const char* what, uint64_t length, int64_t gap, int64_t lowest, int64_t highest, Loc loc);

// `count` elements of `size` bytes with these bits become the first of a tensor: one vector instruction.
void duplicate(Space space, uint64_t begin, uint64_t count, uint32_t size, uint64_t bits, Loc loc);

template <typename T>
Copy copy_between(const char* what, const AscendC::LocalTensor<T>& local, const AscendC::GlobalTensor<T>& global) {
  Copy copy{what};
  copy.gm = global.begin();
  copy.gm_end = global.end();
  copy.space = local.space();
  copy.local = local.begin();
  copy.local_end = local.end();
  copy.element = sizeof(T);
  return copy;
}

// Rows of 32-byte blocks, gaps in blocks on both sides.
inline void set_blocks(Copy& copy, const AscendC::DataCopyParams& params, bool in, Loc loc) {
  check_blocks(copy.what, params.blockCount, params.blockLen, UINT16_MAX, "32-byte blocks", loc);
  copy.rows = params.blockCount;
  copy.row_bytes = params.blockLen * 32u;
  copy.gm_pitch = copy.row_bytes + 32ull * (in ? params.srcGap : params.dstGap);
  copy.local_pitch = copy.row_bytes + 32ull * (in ? params.dstGap : params.srcGap);
}

// Rows of bytes, a gap in bytes in GM (down to minus a row: the same row again) and in 32-byte blocks in UB, where rows
// are padded to 32 bytes. A copy of nothing is allowed, and does nothing.
inline void set_rows(Copy& copy, uint64_t rows, uint64_t row_bytes, uint64_t limit, int64_t gm_gap, int64_t local_gap,
                     bool in, Loc loc) {
  check_blocks(copy.what, rows, row_bytes, limit, "bytes", loc);
  if (row_bytes % copy.element != 0) {
    this_core().fail(Check::kParameter, loc,
                     text(copy.what, " of rows of ", row_bytes, " bytes, which is no multiple of ", copy.element,
                          ", the size of an element"));
  }
  copy.rows = static_cast<uint32_t>(rows);
  copy.row_bytes = static_cast<uint32_t>(row_bytes);
  const int64_t lowest = in ? -static_cast<int64_t>(row_bytes) : 0;
  copy.gm_pitch = pitch_of(copy.what, row_bytes, gm_gap, lowest, (int64_t{1} << 40) - 1, loc);
  const uint64_t padded = (row_bytes + copy.left + copy.right + 31) / 32;
  copy.local_pitch = copy.compact ? row_bytes : 32 * pitch_of(copy.what, padded, local_gap, 0, UINT16_MAX, loc);
  copy.loops = true;
}

constexpr uint64_t kMaxBlockLen = 2097151;

template <typename T>
Copy one_row(const char* what, const AscendC::LocalTensor<T>& local, const AscendC::GlobalTensor<T>& global,
             uint32_t elements, Loc loc) {
  Copy copy = copy_between(what, local, global);
  const uint64_t bytes = bytes_of<T>(elements);
  if (bytes % 32 != 0) {
    this_core().fail(Check::kParameter, loc,
                     text(what, " of ", elements, " ", type_name<T>(), " is ", bytes,
                          " bytes; it takes a multiple of 32 bytes, use DataCopyPad for other lengths"));
  }
  copy.rows = bytes == 0 ? 0 : 1;
  copy.row_bytes = static_cast<uint32_t>(bytes);
  copy.gm_pitch = copy.local_pitch = bytes;
  return copy;
}

template <typename T>
uint64_t bits_of_value(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

}  // namespace npu_lp::twin

#include "twin/sync.h"

namespace AscendC {

template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& params,
                     Loc loc = Loc::here()) {
  npu_lp::twin::Copy copy = npu_lp::twin::copy_between("DataCopy", dst, src);
  npu_lp::twin::set_blocks(copy, params, true, loc);
  npu_lp::twin::copy_in(copy, loc);
}
template <typename T>
inline void DataCopy(const LocalTensor<T>& dst, const GlobalTensor<T>& src, uint32_t count, Loc loc = Loc::here()) {
  npu_lp::twin::copy_in(npu_lp::twin::one_row("DataCopy", dst, src, count, loc), loc);
}
template <typename T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& params,
                     Loc loc = Loc::here()) {
  npu_lp::twin::Copy copy = npu_lp::twin::copy_between("DataCopy", src, dst);
  copy.type = npu_lp::twin::atomic_type_of<T>();
  npu_lp::twin::set_blocks(copy, params, false, loc);
  npu_lp::twin::copy_out(copy, loc);
}
template <typename T>
inline void DataCopy(const GlobalTensor<T>& dst, const LocalTensor<T>& src, uint32_t count, Loc loc = Loc::here()) {
  npu_lp::twin::Copy copy = npu_lp::twin::one_row("DataCopy", src, dst, count, loc);
  copy.type = npu_lp::twin::atomic_type_of<T>();
  npu_lp::twin::copy_out(copy, loc);
}

template <typename T, PaddingMode mode = PaddingMode::Normal>
inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyExtParams& params,
                        const DataCopyPadExtParams<T>& padding, Loc loc = Loc::here()) {
  using namespace npu_lp::twin;
  Copy copy = copy_between("DataCopyPad", dst, src);
  copy.compact = mode == PaddingMode::Compact;
  copy.pad = padding.isPad;
  copy.left = copy.compact ? 0 : padding.leftPadding * static_cast<uint32_t>(sizeof(T));
  copy.right = copy.compact ? 0 : padding.rightPadding * static_cast<uint32_t>(sizeof(T));
  copy.value = bits_of_value(padding.paddingValue);
  set_rows(copy, params.blockCount, params.blockLen, kMaxBlockLen, params.srcStride, params.dstStride, true, loc);
  copy_in(copy, loc);
}
template <typename T, PaddingMode mode = PaddingMode::Normal>
inline void DataCopyPad(const LocalTensor<T>& dst, const GlobalTensor<T>& src, const DataCopyParams& params,
                        const DataCopyPadParams& padding, Loc loc = Loc::here()) {
  using namespace npu_lp::twin;
  Copy copy = copy_between("DataCopyPad", dst, src);
  copy.compact = mode == PaddingMode::Compact;
  copy.pad = padding.isPad;
  copy.left = copy.compact ? 0 : padding.leftPadding * static_cast<uint32_t>(sizeof(T));
  copy.right = copy.compact ? 0 : padding.rightPadding * static_cast<uint32_t>(sizeof(T));
  copy.value = padding.paddingValue;
  set_rows(copy, params.blockCount, params.blockLen, UINT16_MAX, params.srcStride, params.dstStride, true, loc);
  copy_in(copy, loc);
}
template <typename T, PaddingMode mode = PaddingMode::Normal>
inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyExtParams& params,
                        Loc loc = Loc::here()) {
  using namespace npu_lp::twin;
  Copy copy = copy_between("DataCopyPad", src, dst);
  copy.compact = mode == PaddingMode::Compact;
  copy.type = atomic_type_of<T>();
  set_rows(copy, params.blockCount, params.blockLen, kMaxBlockLen, params.dstStride, params.srcStride, false, loc);
  copy_out(copy, loc);
}
template <typename T, PaddingMode mode = PaddingMode::Normal>
inline void DataCopyPad(const GlobalTensor<T>& dst, const LocalTensor<T>& src, const DataCopyParams& params,
                        Loc loc = Loc::here()) {
  using namespace npu_lp::twin;
  Copy copy = copy_between("DataCopyPad", src, dst);
  copy.compact = mode == PaddingMode::Compact;
  copy.type = atomic_type_of<T>();
  set_rows(copy, params.blockCount, params.blockLen, UINT16_MAX, params.dstStride, params.srcStride, false, loc);
  copy_out(copy, loc);
}

template <typename T, TPosition pos = TPosition::MAX>
inline void SetPadValue(T value) {
  npu_lp::twin::this_core().pad_value = npu_lp::twin::bits_of_value(value);
  npu_lp::twin::this_core().pad_value_set = true;
}

inline void SetLoopModePara(const LoopModeParams& params, DataCopyMVType direction) {
  npu_lp::twin::Core& core = npu_lp::twin::this_core();
  npu_lp::twin::LoopMode& mode = direction == DataCopyMVType::OUT_TO_UB ? core.loop_in : core.loop_out;
  mode = {{params.loop1Size, params.loop2Size},
          {params.loop1SrcStride, params.loop2SrcStride},
          {params.loop1DstStride, params.loop2DstStride}};
}
inline void ResetLoopModePara(DataCopyMVType direction) {
  npu_lp::twin::Core& core = npu_lp::twin::this_core();
  (direction == DataCopyMVType::OUT_TO_UB ? core.loop_in : core.loop_out) = {};
}

// The first `count` elements of UB become `scalar`.
template <typename T>
inline void Duplicate(const LocalTensor<T>& dst, const T& scalar, const int32_t& count, Loc loc = Loc::here()) {
  dst.require(npu_lp::twin::bytes_of<T>(static_cast<uint32_t>(count)), loc, "Duplicate");
  npu_lp::twin::duplicate(dst.space(), dst.begin(), static_cast<uint32_t>(count), sizeof(T),
                          npu_lp::twin::bits_of_value(scalar), loc);
}

}  // namespace AscendC
