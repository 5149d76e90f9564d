// The machine under the twin: one core's memories, its pipes, and everything that is watched. kernel_operator.h and the
// files beside it put AscendC's API on top; nothing here knows that API.
//
// A kernel runs as ordinary C++ on the host. Each API call checks its arguments, then issues one instruction:
//
//     Core& core = this_core();
//     core.issue(record, {read spans}, {written spans}, [=](Core& core) { compute on core.memory(Space::kUB) ... });
//
// In program order (the default) the instruction runs at once, after its spans were checked against the vector clocks
// of all earlier accesses. In shuffled order it is queued on its pipe, and pipes run in a random legal order at the
// end. For timing alone, it is only recorded.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "twin/record.h"

namespace npu_lp::twin {

enum class Space : uint8_t { kGM, kUB, kL1, kL0A, kL0B, kL0AMX, kL0BMX, kL0C, kBT, kFB };
constexpr int kSpaces = 10;
const char* space_name(Space space);
uint32_t capacity(Space space);  // bytes; UB: the usable 248 KiB

// `count` pieces of `len` bytes, `pitch` bytes apart, from byte `begin` of a memory. GM: begin is a host address.
struct Span {
  Space space;
  uint64_t begin;
  uint64_t len;
  uint32_t count = 1;
  uint64_t pitch = 0;
};

// The end of the last piece.
inline uint64_t end_of(const Span& span) {
  return span.begin + (span.count - uint64_t{1}) * span.pitch + span.len;
}

enum class Check : uint8_t {
  kBounds,  // outside a tensor, a memory, or every GM tensor of the launch
  kAlignment,
  kParameter,    // out of its range, or in the wrong unit
  kType,         // a pair of types that the hardware does not have
  kPoison,       // bytes that nobody wrote reach GM, a sum or a decision
  kFlag,         // wait without set, set twice, left at the end, reserved id
  kQueue,        // TQue depth, leaked or foreign tensors
  kRace,         // two pipes of a core touch the same bytes, unordered
  kCoreRace,     // two cores touch the same bytes of GM
  kMemoryOrder,  // store and load in one vector function without LocalMemBar
};
const char* check_name(Check check);

struct Report {
  Check check;
  int block;
  Loc loc;
  std::string message;
};

// A launch that a check stopped. what() has one line a report: "mx_quant.h:120: [race] block 3: ...".
class TwinError : public std::runtime_error {
 public:
  TwinError(const std::string& kernel, std::vector<Report> reports);
  const std::vector<Report>& reports() const { return reports_; }

 private:
  std::vector<Report> reports_;
};

enum class Mode : uint8_t { kProgramOrder, kShuffled, kTimingOnly };

struct Options {
  Mode mode = Mode::kProgramOrder;
  uint64_t seed = 0;                // kShuffled
  bool strict_tensor_sizes = true;  // off: an index past a LocalTensor's declared size is no fault (published samples)
  bool record = true;               // keep Records for the timing model
  int threads = 0;                  // host threads that run blocks; 0: as many as the process has CPUs
};

// Bytes of GM that a launch may touch.
struct GmRange {
  const void* begin;
  uint64_t bytes;
};

// State that an API on top of the machine keeps for each core.
struct CoreExtension {
  virtual ~CoreExtension() = default;
};

// What writes to GM add to what is there (SetAtomicAdd<T>).
enum class AtomicType : uint8_t { kNone, kFloat, kHalf, kBFloat16, kInt32, kInt16, kInt8 };

// Outer loops around a DataCopyPad (SetLoopModePara): strides in bytes.
struct LoopMode {
  uint32_t size[2] = {1, 1};  // inner, outer
  uint64_t source[2] = {0, 0};
  uint64_t destination[2] = {0, 0};
};

// Adds `bytes` bytes of elements at `source` to those at `destination` in GM, as one step: blocks may run in parallel.
// Half types add in fp32 and round once.
void atomic_add(AtomicType type, void* destination, const void* source, uint64_t bytes);

struct GmAccess;

class Core {
 public:
  Core(CoreKind kind, int block, int blocks, const Options& options, const std::vector<GmRange>& gm);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  CoreKind kind() const;
  int block() const;
  int blocks() const;
  const Options& options() const;
  bool computes() const;  // false: timing only, values are not needed

  // The host bytes behind a memory; UB, L1, ... each one allocation that never moves, aligned to 4096.
  uint8_t* memory(Space space);

  // Ends this core's kernel with a report.
  [[noreturn]] void fail(Check check, Loc loc, const std::string& message);

  // --- Bounds and poison ------------------------------------------------------------------------------------------
  void check_bounds(const Span& span, Loc loc, const char* what);   // inside the memory, or inside one GM tensor
  void check_defined(const Span& span, Loc loc, const char* what);  // every byte was written before (not for GM)
  void define(const Span& span, bool defined = true);               // GM: ignored
  // One byte of the returned map is 1 where the byte of the memory was written. Not for GM. Who writes it or the memory
  // directly must also call access(write) or define() for those bytes: that is what a later launch cleans up.
  uint8_t* defined_map(Space space);

  // --- Instructions -----------------------------------------------------------------------------------------------
  // Checks the spans' order against all earlier accesses, records, and runs or queues `execute`. The caller has checked
  // bounds; `execute` calls check_defined and define itself.
  template <typename F>
  void issue(const Record& record, std::initializer_list<Span> reads, std::initializer_list<Span> writes, F&& execute) {
    if (begin_instruction(record)) {
      for (const Span& span : reads) access(span, false, record.loc);
      for (const Span& span : writes) access(span, true, record.loc);
      execute(*this);
      end_instruction();
    } else if (queues()) {
      enqueue(record, std::function<void(Core&)>(std::forward<F>(execute)));
    }
  }
  template <typename F>
  void issue(const Record& record, const std::vector<Span>& reads, const std::vector<Span>& writes, F&& execute) {
    if (begin_instruction(record)) {
      for (const Span& span : reads) access(span, false, record.loc);
      for (const Span& span : writes) access(span, true, record.loc);
      execute(*this);
      end_instruction();
    } else if (queues()) {
      enqueue(record, std::function<void(Core&)>(std::forward<F>(execute)));
    }
  }
  // An instruction whose spans are known only while it runs: `execute` calls access() for each, from first to last.
  bool begin_instruction(const Record& record);  // true: run it now
  void access(const Span& span, bool write, Loc loc);
  void end_instruction();
  Record& last_record();  // to fill in what is known only after running (VectorCounts)
  bool queues() const;    // shuffled: instructions are queued
  void enqueue(const Record& record, std::function<void(Core&)> execute);
  // Runs all queued instructions (shuffled mode), before the scalar unit reads a value.
  void drain();
  // The scalar unit reads or writes `span`; what is queued runs first. Reads of GM are recorded.
  void scalar(const Span& span, bool write, Loc loc);

  // --- Order ------------------------------------------------------------------------------------------------------
  void set_flag(Pipe from, Pipe to, int id, Loc loc);
  void wait_flag(Pipe from, Pipe to, int id, Loc loc);
  void barrier(Pipe pipe, Loc loc);
  void barrier_all(Loc loc);
  // A hand-over without a flag id (queues' buffer ids, the unit flag): what `from` did so far happens before what `to`
  // does after acquire(). release() returns a token for it.
  uint32_t release(Pipe from, Loc loc);
  void acquire(Pipe to, uint32_t token, Loc loc);
  // Atomic adds into GM by several cores are no race.
  void set_atomic(AtomicType type);
  AtomicType atomic_type() const;
  bool atomic() const { return atomic_type() != AtomicType::kNone; }

  // --- Tensors whose address a kernel took (GetPhyAddr), so that pointer accesses can be checked against them --------
  void expose(const void* pointer, uint64_t begin, uint64_t end);  // the UB tensor [begin, end) that pointer is in
  bool exposed(const void* pointer, uint64_t* begin, uint64_t* end) const;

  void at_finish(std::function<void(Core&)> check);  // queues: leaks
  void finish();  // end of the kernel: queued instructions run, flags and queues must be clean
  std::vector<Record> take_records();
  void take_gm_accesses(std::vector<GmAccess>& all);  // appends

  // State that a kernel sets and later instructions read at the time they are issued. Queued instructions see `control`
  // and the atomic type as they were when issued.
  uint64_t control = 0x1000000000000008ull;  // SetCtrlSpr
  uint64_t pad_value = 0;                    // of copies from GM
  bool pad_value_set = false;                // SetPadValue was called
  LoopMode loop_in, loop_out;                // GM -> UB, UB -> GM
  void* pipe_object = nullptr;               // the kernel's TPipe
  uint32_t mutex_tokens[32] = {};            // of AscendC::Mutex: what Lock waits for

  std::unique_ptr<CoreExtension> extension;  // cube.h: unit flags

 private:
  struct State;
  void check_flag(Pipe from, Pipe to, int id, Loc loc);
  std::unique_ptr<State> state_;
};

// The core whose kernel this host thread is running; an error outside a launch.
Core& this_core();
bool in_launch();

// Runs `body` once for each block, each with a Core of its own as this_core(), and throws TwinError if any check spoke.
// Blocks may run on several host threads. Races between blocks in GM are checked after the last has run.
LaunchRecord launch(const std::string& kernel, CoreKind kind, int blocks, const Options& options,
                    const std::vector<GmRange>& gm, const std::function<void()>& body);

}  // namespace npu_lp::twin
