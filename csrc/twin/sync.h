// Flags, barriers, mutexes, block indices, and the registers that a kernel sets once.
#pragma once

#include <algorithm>
#include <type_traits>

#include "twin/enums.h"
#include "twin/machine.h"
#include "twin/queue.h"
#include "twin/tensor.h"

namespace npu_lp::twin {

struct PipePair {
  Pipe from, to;
};

constexpr PipePair pipes_of(AscendC::HardEvent event) {
  constexpr Pipe S = Pipe::kS, V = Pipe::kV, M = Pipe::kM, MTE1 = Pipe::kMTE1, MTE2 = Pipe::kMTE2, MTE3 = Pipe::kMTE3,
                 FIX = Pipe::kFIX;
  constexpr PipePair pairs[] = {
      {MTE2, MTE1}, {MTE1, MTE2}, {MTE1, M}, {M, MTE1},   {MTE2, V},    {V, MTE2},    {MTE3, V},
      {V, MTE3},    {M, V},       {V, M},    {V, V},      {MTE3, MTE1}, {MTE1, MTE3}, {MTE1, V},
      {MTE2, M},    {M, MTE2},    {V, MTE1}, {M, FIX},    {FIX, M},     {MTE3, MTE2}, {MTE2, MTE3},
      {S, V},       {V, S},       {S, MTE2}, {MTE2, S},   {S, MTE3},    {MTE3, S},    {MTE2, FIX},
      {FIX, MTE2},  {FIX, S},     {M, S},    {FIX, MTE3}, {MTE1, FIX},  {FIX, MTE1},  {FIX, FIX},
  };
  static_assert(sizeof(pairs) / sizeof(pairs[0]) == static_cast<size_t>(AscendC::HardEvent::MAX));
  return pairs[static_cast<int>(event)];
}

constexpr Pipe pipe_of(pipe_t pipe) {
  switch (pipe) {
    case PIPE_V:
      return Pipe::kV;
    case PIPE_M:
      return Pipe::kM;
    case PIPE_MTE1:
      return Pipe::kMTE1;
    case PIPE_MTE2:
      return Pipe::kMTE2;
    case PIPE_MTE3:
      return Pipe::kMTE3;
    case PIPE_FIX:
      return Pipe::kFIX;
    default:
      return Pipe::kS;
  }
}

template <typename T>
constexpr AtomicType atomic_type_of() {
  if constexpr (std::is_same_v<T, float>) return AtomicType::kFloat;
  if constexpr (std::is_same_v<T, half>) return AtomicType::kHalf;
  if constexpr (std::is_same_v<T, bfloat16_t>) return AtomicType::kBFloat16;
  if constexpr (std::is_same_v<T, int32_t>) return AtomicType::kInt32;
  if constexpr (std::is_same_v<T, int16_t>) return AtomicType::kInt16;
  if constexpr (std::is_same_v<T, int8_t>) return AtomicType::kInt8;
  return AtomicType::kNone;
}

void mutex_lock(Pipe pipe, uint32_t id, Loc loc);
void mutex_unlock(Pipe pipe, uint32_t id, Loc loc);

}  // namespace npu_lp::twin

#define ASCEND_IS_AIV (::npu_lp::twin::this_core().kind() == ::npu_lp::twin::CoreKind::kVector)
#define ASCEND_IS_AIC (::npu_lp::twin::this_core().kind() == ::npu_lp::twin::CoreKind::kCube)

inline AscendC::TPipe* GetTPipePtr() {
  return static_cast<AscendC::TPipe*>(::npu_lp::twin::this_core().pipe_object);
}

namespace AscendC {

using npu_lp::twin::Loc;
using MutexID = uint8_t;

template <HardEvent event>
inline void SetFlag(int32_t id, Loc loc = Loc::here()) {
  constexpr npu_lp::twin::PipePair pipes = npu_lp::twin::pipes_of(event);
  npu_lp::twin::this_core().set_flag(pipes.from, pipes.to, id, loc);
}

template <HardEvent event>
inline void WaitFlag(int32_t id, Loc loc = Loc::here()) {
  constexpr npu_lp::twin::PipePair pipes = npu_lp::twin::pipes_of(event);
  npu_lp::twin::this_core().wait_flag(pipes.from, pipes.to, id, loc);
}

template <pipe_t pipe>
inline void PipeBarrier(Loc loc = Loc::here()) {
  static_assert(pipe != PIPE_S, "PipeBarrier<PIPE_S> does not exist: the scalar unit runs in order");
  if constexpr (pipe == PIPE_ALL) {
    npu_lp::twin::this_core().barrier_all(loc);
  } else {
    npu_lp::twin::this_core().barrier(npu_lp::twin::pipe_of(pipe), loc);
  }
}

template <MemDsbT kind>
inline void DataSyncBarrier() {}

class Mutex {
 public:
  template <pipe_t pipe>
  static void Lock(MutexID id, Loc loc = Loc::here()) {
    npu_lp::twin::mutex_lock(npu_lp::twin::pipe_of(pipe), id, loc);
  }
  template <pipe_t pipe>
  static void Unlock(MutexID id, Loc loc = Loc::here()) {
    npu_lp::twin::mutex_unlock(npu_lp::twin::pipe_of(pipe), id, loc);
  }
};

inline int64_t GetBlockIdx() {
  return npu_lp::twin::this_core().block();
}
inline int64_t GetBlockNum() {
  return npu_lp::twin::this_core().blocks();
}
// Kernels here are purely vector or purely cube: one sub-block, and no other half to talk to.
inline int64_t GetSubBlockIdx() {
  return 0;
}
inline int64_t GetSubBlockNum() {
  return 1;
}
inline int64_t GetTaskRatio() {
  return 1;
}
inline int64_t GetSystemCycle() {
  return 0;
}
constexpr uint32_t GetUBSizeInBytes() {
  return TOTAL_UB_SIZE;
}
inline uint32_t GetRuntimeUBSize() {
  return TOTAL_UB_SIZE;
}
constexpr int16_t GetDataBlockSizeInBytes() {
  return ONE_BLK_SIZE;
}

inline void InitSocState() {
  npu_lp::twin::Core& core = npu_lp::twin::this_core();
  core.set_atomic(npu_lp::twin::AtomicType::kNone);
  core.loop_in = core.loop_out = {};
  core.control = (core.control & 1ull << 48) | 0x1000000000000008ull;
}

template <typename T>
inline void SetAtomicAdd() {
  static_assert(npu_lp::twin::atomic_type_of<T>() != npu_lp::twin::AtomicType::kNone,
                "SetAtomicAdd takes float, half, bfloat16_t, int32_t, int16_t or int8_t");
  npu_lp::twin::this_core().set_atomic(npu_lp::twin::atomic_type_of<T>());
}
inline void SetAtomicNone() {
  npu_lp::twin::this_core().set_atomic(npu_lp::twin::AtomicType::kNone);
}
inline void DisableDmaAtomic() {
  SetAtomicNone();
}

namespace ctrl {
constexpr uint64_t mask(int first, int last) {
  return (last - first == 63 ? ~0ull : (1ull << (last - first + 1)) - 1) << first;
}
constexpr uint64_t kAtStart = 0x1000000000000008ull;
}  // namespace ctrl

template <int8_t first, int8_t last>
inline void SetCtrlSpr(int64_t value) {
  static_assert(0 <= first && first <= last && last < 64);
  uint64_t& control = npu_lp::twin::this_core().control;
  control = (control & ~ctrl::mask(first, last)) | (static_cast<uint64_t>(value) << first & ctrl::mask(first, last));
}
template <int8_t first, int8_t last>
inline int64_t GetCtrlSpr() {
  return static_cast<int64_t>((npu_lp::twin::this_core().control & ctrl::mask(first, last)) >> first);
}
template <int8_t first, int8_t last>
inline void ResetCtrlSpr() {
  uint64_t& control = npu_lp::twin::this_core().control;
  control = (control & ~ctrl::mask(first, last)) | (ctrl::kAtStart & ctrl::mask(first, last));
}

// Caches are not modelled.
enum class CacheLine : uint64_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
template <typename T, CacheLine line, DcciDst target = DcciDst::CACHELINE_ALL>
inline void DataCacheCleanAndInvalid(const GlobalTensor<T>&) {}

}  // namespace AscendC
