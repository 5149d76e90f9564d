// What a kernel did, one record an instruction, in program order: all that the counters, the timing model and the trace
// need. The machine writes it, csrc/twin/timing reads it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace npu_lp::twin {

// The instruction queues of one AI core half. A cube core (AIC) has S, M, MTE1, MTE2, FIX; a vector core (AIV) has S,
// V, MTE2, MTE3.
enum class Pipe : uint8_t { kS, kV, kM, kMTE1, kMTE2, kMTE3, kFIX };
constexpr int kPipes = 7;
constexpr const char* pipe_name(Pipe pipe) {
  constexpr const char* names[] = {"SCALAR", "VECTOR", "CUBE", "MTE1", "MTE2", "MTE3", "FIXP"};
  return names[static_cast<int>(pipe)];
}

// Where in a kernel's source something was called.
struct Loc {
  const char* file = "";
  int line = 0;
  static constexpr Loc here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
};

enum class Op : uint8_t {
  kCopyIn,    // MTE2: GM -> UB (DataCopy, DataCopyPad) or GM -> L1 without a change of layout
  kNd2Nz,     // MTE2: GM -> L1, rows of a matrix into fractals
  kDn2Nz,     // MTE2: the same from the transposed matrix
  kFill,      // MTE2: constants into L1
  kLoad,      // MTE1: L1 -> L0A or L0B, with scales when scale_bytes > 0
  kLoadBias,  // MTE1: L1 -> BT
  kMmad,      // M
  kFixpipe,   // FIX: L0C -> GM
  kCopyOut,   // MTE3: UB -> GM
  kVector,    // V: one call of a vector function
  kSet,       // a flag is set, or a queue's buffer handed on, once the pipe's earlier instructions are complete
  kWait,      // the pipe waits for the kSet of the same `sync`
  kBarrier,   // the pipe waits for its own earlier instructions; with `all`, every pipe for every other
  kScalar,    // scalar work worth counting (GetValue of GM)
};

// Instructions of one vector function, by what limits them (ascend950-costs.md, section 3.1).
struct VectorCounts {
  uint32_t issued = 0;  // all instructions
  uint32_t single = 0;  // of them, those that cannot be issued in pairs
  uint32_t execute_cycles =
      0;               // cycles of the execute ports: 1 for an add of one register, 2 for a cast fp32 -> fp8, ...
  uint32_t loads = 0;  // reads of UB, 256 bytes or less each
  uint32_t stores = 0;
  uint32_t barriers = 0;  // LocalMemBar
  uint32_t loops = 0;     // not seen by the machine: 0
};

struct Record {
  Op op = Op::kScalar;
  Pipe pipe = Pipe::kS;
  bool all = false;       // kBarrier: PIPE_ALL
  uint8_t unit_flag = 0;  // kMmad, kFixpipe: 0, 2 or 3, as in MmadParams
  uint8_t c0_shift = 0;   // kMmad: log2 of elements of K per fractal (4 fp16, 5 fp8, 6 fp4)
  uint32_t sync = 0;      // kSet, kWait: pairs them; unique within a core
  // GM side of a copy: `rows` pieces of `row_bytes`, `pitch` bytes apart, from `gm` (a host address).
  uint64_t gm = 0;
  uint64_t pitch = 0;
  uint32_t rows = 0;
  uint32_t row_bytes = 0;
  uint32_t bytes = 0;            // bytes of the on-chip side, scales not counted
  uint32_t scale_bytes = 0;      // kLoad
  uint16_t m = 0, n = 0, k = 0;  // kMmad: as given; kFixpipe: m, n
  uint32_t l0c = 0;              // kMmad, kFixpipe: byte address in L0C
  VectorCounts vector;           // kVector
  Loc loc;
};

enum class CoreKind : uint8_t { kVector, kCube };

// One launch: a list of records for each block, in the order of block index.
struct LaunchRecord {
  std::string kernel;
  CoreKind kind = CoreKind::kVector;
  std::vector<std::vector<Record>> cores;
};

}  // namespace npu_lp::twin
