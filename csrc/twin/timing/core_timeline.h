// The times of one block's instructions, as far as they are known: see engine.h.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "twin/record.h"
#include "twin/timing/costs.h"
#include "twin/timing/engine.h"
#include "twin/timing/trace.h"

namespace npu_lp::twin {

class CoreTimeline {
 public:
  // A transfer between GM and the core that is to start on the global clock.
  struct Transfer {
    Pipe pipe;
    const Record* record;
    double start;  // of the bytes' move; a Fixpipe's fixed part lies before
  };

  CoreTimeline(const std::vector<Record>& records, CoreKind kind, double start, const CostTable& costs);

  // Goes on until nothing more is known. New transfers are in take_transfers().
  void advance();
  std::vector<Transfer>& transfers() { return transfers_; }
  // The bytes of the pipe's transfer have moved at `time`; it is complete, for flags, `latency` later.
  void transfer_ended(Pipe pipe, double time, double latency);

  bool finished() const;
  double end() const;
  // What the block is waiting for when nothing happens any more.
  std::string blocked_at() const;

  double pipe_busy(Pipe pipe) const { return pipes_[index(pipe)].busy; }
  uint64_t pipe_instructions(Pipe pipe) const { return pipes_[index(pipe)].instructions; }
  void set_trace(Trace* trace, int core, double us_per_cycle, double offset_us);

 private:
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  static int index(Pipe pipe) { return static_cast<int>(pipe); }

  struct Queued {
    size_t record;
    double time;  // when the scalar unit put it there
  };
  struct PipeState {
    std::vector<Queued> queue;    // ring of queue_depth
    std::vector<double> taken;    // ring: when the pipe took the instruction with that number
    std::vector<double> flights;  // ring of dma_in_flight: when transfers were complete
    uint64_t put = 0, took = 0, transfers = 0;
    double ready = 0;       // the next instruction can start
    double done = 0;        // all earlier ones are complete
    double last_start = 0;  // of the latest instruction
    double unit_end = 0;    // kFIX, kM: the unit flag keeps the next one from ending before
    double busy = 0, busy_until = 0;
    uint64_t instructions = 0;
    uint32_t l0c = ~0u;
    bool moving = false;  // a transfer is under way
    double moving_from = 0;
  };
  struct Sync {
    double time = kUnknown;  // the waiter may go on
    double start = 0;        // of the instruction before the set
    Pipe from = Pipe::kS;
  };

  bool step_scalar();
  bool step_pipe(Pipe pipe);
  bool wait(PipeState& pipe, Pipe name, size_t at, double queued);
  void set(PipeState& pipe, Pipe name, const Record& record, double queued);
  void run(PipeState& pipe, const Record& record, double queued);
  void mmad(PipeState& pipe, const Record& record, double queued);
  void start_transfer(PipeState& pipe, Pipe name, const Record& record, double queued);
  void busy(PipeState& pipe, double start, double end);
  void trace(const Record& record, double start, double end);
  double vector_cycles(const VectorCounts& counts) const;
  bool idle() const;

  const std::vector<Record>& records_;
  CoreKind kind_;
  const CostTable& costs_;
  size_t at_ = 0;  // next record of the scalar unit
  double scalar_ = 0;
  std::array<PipeState, kPipes> pipes_;
  std::vector<Sync> syncs_;
  std::vector<uint64_t> cached_;  // lines of GM that the scalar unit read
  std::vector<Transfer> transfers_;
  Trace* trace_ = nullptr;
  int trace_core_ = 0;
  double us_per_cycle_ = 0, offset_us_ = 0;
};

}  // namespace npu_lp::twin
