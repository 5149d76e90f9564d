// Inside the machine: what a Core keeps. Only the machine's own sources include this.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "twin/machine.h"

namespace npu_lp::twin {

constexpr uint32_t kPage = 4096;     // bytes of a memory that are cleaned together
constexpr uint32_t kCellBytes = 32;  // bytes of a local memory that share a race cell
constexpr int kIds = 8;              // flag ids per pair of pipes
constexpr int kFirstReservedId = 6;  // 6: system, 7: TPipe

// Serial numbers of the instructions that last wrote and read 32 bytes. A memory has at most three reading pipes.
struct Cell {
  uint32_t write = 0;
  uint32_t read[3] = {0, 0, 0};
};

// The memories of one core, reused by later launches: what a kernel touched is cleaned afterwards, and serial numbers
// go on counting, so that old cells need no cleaning.
class Memories {
 public:
  struct Area {
    uint8_t* bytes = nullptr;
    uint8_t* defined = nullptr;
    Cell* cells = nullptr;
    std::vector<bool> dirty;  // by page
  };

  static std::unique_ptr<Memories> take();
  static void give_back(std::unique_ptr<Memories> memories);
  ~Memories();

  Area& area(Space space) { return areas_[static_cast<int>(space)]; }
  void mark_dirty(Space space, uint64_t begin, uint64_t end) {
    std::vector<bool>& dirty = area(space).dirty;
    for (uint64_t page = begin / kPage; page * kPage < end; ++page) dirty[page] = true;
  }
  uint32_t next_serial = 1;

 private:
  Memories();
  void clean();

  Area areas_[kSpaces];
};

using Clock = std::array<uint32_t, kPipes>;

// One access to GM, with what its instruction knew, to be compared with all others when the launch is over.
struct GmAccess {
  Span span;
  int block = 0;
  Pipe pipe = Pipe::kS;
  bool write = false;
  bool atomic = false;
  uint32_t index = 0;  // of its instruction on its pipe
  uint32_t serial = 0;
  Clock known{};
  Loc loc;
};

// Reports for accesses that overlap in time and place; `others` accesses of all blocks.
std::vector<Report> find_gm_races(std::vector<GmAccess> accesses);

struct Stop {
  Report report;
};

struct Core::State {
  State(CoreKind core_kind, int block_index, int block_count, const Options& how, const std::vector<GmRange>& ranges)
      : kind(core_kind),
        block(block_index),
        blocks(block_count),
        options(how),
        gm(ranges),
        memories(Memories::take()),
        first_serial(memories->next_serial) {}

  CoreKind kind;
  int block;
  int blocks;
  const Options& options;
  const std::vector<GmRange>& gm;
  std::unique_ptr<Memories> memories;
  const uint32_t first_serial;  // of this launch's instructions

  std::vector<Record> records;
  Record scratch;  // stands in when nothing is recorded
  size_t current_record = 0;
  uint32_t next_sync = 1;
  AtomicType atomic = AtomicType::kNone;
  std::vector<std::function<void(Core&)>> checks_at_end;
  std::vector<std::pair<uint64_t, uint64_t>> exposed;
  size_t last_range = 0;

  // --- Order ---
  struct Instruction {
    Pipe pipe;
    uint32_t index;
    Loc loc;
  };
  std::vector<Instruction> instructions;  // by serial number - first_serial
  Clock count{};                          // instructions issued so far
  Clock known[kPipes] = {};               // known[p][q]: newest of q that is complete before p's next one starts
  Op op = Op::kScalar;                    // the instruction being run
  uint32_t serial = 0;
  bool small_mmad = false;
  struct SmallMmad {
    uint64_t begin, end;
    uint32_t index;
    Loc loc;
  };
  std::vector<SmallMmad> small_mmads;  // products whose result a following Mmad must wait for
  struct Flag {
    bool set = false;
    uint32_t sync = 0;
    Loc loc;
  };
  Flag flags[kPipes][kPipes][kIds];
  std::vector<Clock> tokens;  // by sync number
  std::vector<GmAccess> gm_log;

  // --- Shuffled order ---
  struct Item {
    enum Kind : uint8_t { kRun, kSet, kWait, kBarrier } kind = kRun;
    uint32_t sync = 0;
    std::function<void(Core&)> run;
    size_t record = 0;
    uint64_t control = 0;
    AtomicType atomic = AtomicType::kNone;
    Loc loc;
  };
  std::deque<Item> queues[kPipes];
  std::vector<bool> done;  // by sync number
  uint64_t random = 0;
  int style = 0;
  int priority[kPipes] = {};

  bool shuffled() const { return options.mode == Mode::kShuffled; }
  bool timing() const { return options.mode == Mode::kTimingOnly; }
  uint64_t next_random();
  uint32_t new_sync(Pipe from);
  void learn(Pipe pipe, uint32_t sync);
  void push_record(const Record& record);
  void note_touched(const Span& span);
  void access_local(Core& core, const Span& span, bool write, Loc loc);
  void access_cells(Core& core, Space space, uint64_t begin, uint64_t end, bool write, Loc loc);
  void check_small_mmad(Core& core, uint64_t begin, uint64_t end, Loc loc);
  bool run_one(Core& core);
  void run_until(Core& core, uint32_t sync);
  void run_all(Core& core);
  [[noreturn]] void deadlock(Core& core);
};

inline bool completes_in_order(Pipe pipe) {
  return pipe != Pipe::kMTE1 && pipe != Pipe::kMTE2 && pipe != Pipe::kMTE3;
}
bool has_pipe(CoreKind kind, Pipe pipe);

// How to order an instruction of `before` and a later one of `now`, as reports of races advise.
std::string order_between(Pipe before, Pipe now);

}  // namespace npu_lp::twin
