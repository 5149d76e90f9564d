// The vector function that a host thread is running: what it may touch, what it counted, what it stored since the last
// LocalMemBar. One call, or one __VEC_SCOPE__ block, is one instruction of PIPE_V.
#pragma once

#include <cstdint>
#include <vector>

#include "twin/machine.h"
#include "twin/reg_types.h"

namespace npu_lp::twin {

class VectorRun {
 public:
  // `any_tensor`: a block may touch every tensor whose address the kernel took; a call only those of its arguments.
  VectorRun(Core& core, bool compute, bool any_tensor);
  ~VectorRun();
  VectorRun(const VectorRun&) = delete;
  VectorRun& operator=(const VectorRun&) = delete;

  // A pointer argument of the call.
  void allow(const void* pointer);
  // Hands what was accessed to the machine.
  void finish();

  bool compute() const { return compute_; }
  const VectorCounts& counts() const { return counts_; }
  uint64_t control() const { return core_.control; }

  // One instruction that occupies an execute port for `cycles`.
  void count(uint32_t cycles = 1, bool single = false) {
    ++counts_.issued;
    counts_.single += single;
    counts_.execute_cycles += cycles;
  }
  void count_load(uint32_t reads, bool single) {
    ++counts_.issued;
    counts_.single += single;
    counts_.loads += reads;
  }
  void count_store(uint32_t writes) {
    ++counts_.issued;
    ++counts_.single;
    counts_.stores += writes;
  }

  // `bytes` of UB from `pointer` are about to be read: returns their UB address after all checks.
  uint64_t load(const void* pointer, uint32_t bytes, uint32_t alignment, Loc loc) {
    const uint64_t begin = locate(pointer, bytes, alignment, loc, "loads");
    if (compute_) {
      check_order(begin, bytes, loc);
      note(reads_, begin, bytes, false, loc);
    }
    return begin;
  }
  // Where a store goes to, its active bytes being [first, last) of what `pointer` points at.
  uint64_t store(const void* pointer, uint32_t first, uint32_t last, uint32_t alignment, Loc loc) {
    const uint64_t begin = locate(pointer, first, last, alignment, loc, "stores");
    if (compute_ && first < last) {
      remember(begin + first, last - first);
      note(writes_, begin + first, last - first, true, loc);
    }
    return begin;
  }
  uint64_t address(const void* pointer, Loc loc) {
    const auto offset = static_cast<uint64_t>(static_cast<const uint8_t*>(pointer) - memory_);
    if (offset > capacity_) outside(pointer, loc);
    return offset;
  }
  // All stores so far are visible to loads from here on.
  void barrier(bool stores_to_loads) {
    ++counts_.issued;
    ++counts_.barriers;
    if (stores_to_loads && stored_) {
      next_epoch();
      stored_ = false;
    }
  }

  uint8_t* memory() { return memory_; }
  uint8_t* defined() { return defined_; }
  [[noreturn]] void fail(Check check, Loc loc, const std::string& message) { core_.fail(check, loc, message); }

 private:
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  // Accesses that follow or repeat one another are handed to the machine as one span.
  struct Pending {
    Range range;
    Loc loc;
  };
  static constexpr int kStreams = 4;
  struct Stream {
    Pending pending[kStreams];
    int last = 0;
    int oldest = 0;
  };

  uint64_t locate(const void* pointer, uint32_t bytes, uint32_t alignment, Loc loc, const char* what) {
    return locate(pointer, 0, bytes, alignment, loc, what);
  }
  uint64_t locate(const void* pointer, uint32_t first, uint32_t last, uint32_t alignment, Loc loc, const char* what) {
    const auto begin = static_cast<uint64_t>(static_cast<const uint8_t*>(pointer) - memory_);
    if (begin % alignment != 0) misaligned(begin, alignment, loc, what);
    if (begin + first < hit_.begin || begin + last > hit_.end) find(pointer, begin, first, last, loc, what);
    return begin;
  }
  void find(const void* pointer, uint64_t begin, uint32_t first, uint32_t last, Loc loc, const char* what);
  [[noreturn]] void misaligned(uint64_t begin, uint32_t alignment, Loc loc, const char* what);
  [[noreturn]] void outside(const void* pointer, Loc loc);

  void note(Stream& stream, uint64_t begin, uint32_t bytes, bool write, Loc loc) {
    Range& range = stream.pending[stream.last].range;
    const uint64_t end = begin + bytes;
    if (begin >= range.begin && begin <= range.end && range.end != 0) {
      if (end > range.end) range.end = end;
    } else {
      note_slowly(stream, begin, end, write, loc);
    }
  }
  void note_slowly(Stream& stream, uint64_t begin, uint64_t end, bool write, Loc loc);
  void hand_over(Pending& pending, bool write);

  void remember(uint64_t begin, uint32_t bytes);
  void check_order(uint64_t begin, uint32_t bytes, Loc loc) {
    if (stored_ && begin < stored_range_.end && begin + bytes > stored_range_.begin)
      check_order_slowly(begin, bytes, loc);
  }
  void check_order_slowly(uint64_t begin, uint32_t bytes, Loc loc);
  void next_epoch();

  Core& core_;
  uint8_t* memory_;
  uint8_t* defined_;
  uint64_t capacity_;
  bool compute_;
  bool any_tensor_;
  bool stored_ = false;
  Range hit_;           // the tensor that was accessed last
  Range stored_range_;  // around all stores since the last barrier
  VectorCounts counts_;
  Stream reads_;
  Stream writes_;
  int tensors_ = 0;
  Range tensor_[16];
  VectorRun* outer_;
};

// Null outside a vector function.
extern constinit thread_local VectorRun* current_run __attribute__((tls_model("initial-exec")));

[[noreturn]] void not_in_vector_function();

inline VectorRun& vector_run() {
  VectorRun* run = current_run;
  if (run == nullptr) not_in_vector_function();
  return *run;
}

}  // namespace npu_lp::twin
