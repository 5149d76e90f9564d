#include "twin/timing/core_timeline.h"

#include <algorithm>
#include <cmath>

namespace npu_lp::twin {
namespace {

bool moves_gm(Op op) {
  return op == Op::kCopyIn || op == Op::kNd2Nz || op == Op::kDn2Nz || op == Op::kCopyOut || op == Op::kFixpipe;
}

bool is_flag(Op op) {
  return op == Op::kSet || op == Op::kWait || op == Op::kBarrier;
}

}  // namespace

CoreTimeline::CoreTimeline(const std::vector<Record>& records, CoreKind kind, double start, const CostTable& costs)
    : records_(records), kind_(kind), costs_(costs), scalar_(start) {
  if (!records.empty()) scalar_ += kind == CoreKind::kCube ? costs.prologue_cube : costs.prologue_vector;
  uint32_t syncs = 0;
  for (const Record& record : records) {
    if (record.op == Op::kSet || record.op == Op::kWait) syncs = std::max(syncs, record.sync + 1);
  }
  syncs_.resize(syncs);
  for (PipeState& pipe : pipes_) {
    pipe.queue.resize(static_cast<size_t>(costs.queue_depth));
    pipe.taken.resize(static_cast<size_t>(costs.queue_depth));
    pipe.flights.resize(static_cast<size_t>(costs.dma_in_flight));
    pipe.ready = pipe.done = scalar_;
  }
}

void CoreTimeline::set_trace(Trace* trace, int core, double us_per_cycle, double offset_us) {
  trace_ = trace;
  trace_core_ = core;
  us_per_cycle_ = us_per_cycle;
  offset_us_ = offset_us;
}

void CoreTimeline::advance() {
  for (bool moved = true; moved;) {
    moved = false;
    while (step_scalar()) moved = true;
    for (int pipe = 1; pipe < kPipes; ++pipe) {
      while (step_pipe(static_cast<Pipe>(pipe))) moved = true;
    }
  }
}

bool CoreTimeline::step_scalar() {
  if (at_ == records_.size()) return false;
  const Record& record = records_[at_];
  PipeState& scalar = pipes_[index(Pipe::kS)];
  const double before = scalar_;
  if (record.op == Op::kBarrier && record.all) {
    if (!idle()) return false;
    for (const PipeState& pipe : pipes_) scalar_ = std::max(scalar_, pipe.done);
    scalar_ += costs_.barrier_all;
    for (PipeState& pipe : pipes_) pipe.ready = std::max(pipe.ready, scalar_);
    trace(record, before, scalar_);
  } else if (record.pipe == Pipe::kS) {
    if (record.op == Op::kWait) {
      const Sync& sync = syncs_[record.sync];
      if (std::isnan(sync.time)) return false;
      scalar_ = std::max(scalar_ + costs_.scalar_flag, sync.time);
      trace(record, before, scalar_);
    } else if (record.op == Op::kSet) {
      scalar_ += costs_.scalar_flag;
      syncs_[record.sync] = {scalar_ + costs_.flag_latency, scalar_, Pipe::kS};
    } else if (record.op == Op::kScalar) {
      const uint64_t line = record.gm / static_cast<uint64_t>(costs_.scalar_cache_line);
      const bool cached = std::find(cached_.begin(), cached_.end(), line) != cached_.end();
      if (!cached) cached_.push_back(line);
      scalar_ += cached ? costs_.gm_scalar_hit : costs_.gm_scalar_miss;
      busy(scalar, before, scalar_);
      ++scalar.instructions;
      trace(record, before, scalar_);
    }
    scalar.done = scalar.ready = std::max(scalar.done, scalar_);
  } else {
    PipeState& pipe = pipes_[index(record.pipe)];
    const uint64_t depth = pipe.queue.size();
    if (pipe.put >= depth) {
      if (pipe.took <= pipe.put - depth) return false;
      scalar_ = std::max(scalar_, pipe.taken[pipe.put % depth]);
    }
    const double cost = is_flag(record.op) ? costs_.scalar_flag : costs_.scalar_issue;
    busy(scalar, scalar_, scalar_ + cost);
    ++scalar.instructions;
    scalar_ += cost;
    pipe.queue[pipe.put % depth] = {at_, scalar_};
    ++pipe.put;
  }
  ++at_;
  return true;
}

bool CoreTimeline::step_pipe(Pipe name) {
  PipeState& pipe = pipes_[index(name)];
  if (pipe.took == pipe.put || pipe.moving) return false;
  const auto [at, queued] = pipe.queue[pipe.took % pipe.queue.size()];
  const Record& record = records_[at];
  double taken = std::max(pipe.ready, queued);
  if (record.op == Op::kWait) {
    if (!wait(pipe, name, at, queued)) return false;
    taken = std::max(taken, pipe.ready);
  } else if (record.op == Op::kSet) {
    set(pipe, name, record, queued);
  } else if (record.op == Op::kBarrier) {
    pipe.ready = std::max(taken, pipe.done + costs_.barrier_pipe);
    taken = pipe.ready;
  } else {
    ++pipe.instructions;
    if (moves_gm(record.op)) {
      start_transfer(pipe, name, record, queued);
    } else if (record.op == Op::kMmad) {
      mmad(pipe, record, queued);
    } else {
      run(pipe, record, queued);
    }
    taken = std::max(taken, pipe.last_start);
  }
  pipe.taken[pipe.took % pipe.queue.size()] = taken;
  ++pipe.took;
  return true;
}

// The unit flag shows in the records as a hand-over directly before the Fixpipe, or directly before the first Mmad of
// the next tile. In hardware it is finer: L0C passes from one pipe to the other in pieces of 512 bytes.
bool CoreTimeline::wait(PipeState& pipe, Pipe name, size_t at, double queued) {
  const Record& record = records_[at];
  const Sync& sync = syncs_[record.sync];
  if (std::isnan(sync.time)) return false;
  const Record* next = at + 1 < records_.size() ? &records_[at + 1] : nullptr;
  const bool unit = next != nullptr && next->unit_flag != 0 && next->pipe == name;
  if (unit && name == Pipe::kFIX && sync.from == Pipe::kM) {
    pipe.ready = std::max(pipe.ready, sync.start + costs_.mmad_head + costs_.unit_block);
    pipe.unit_end = sync.time - costs_.flag_latency + costs_.unit_block;
  } else if (unit && name == Pipe::kM && sync.from == Pipe::kFIX) {
    pipe.unit_end = sync.time - costs_.flag_latency + costs_.unit_block;
  } else {
    const double before = std::max(pipe.ready, queued);
    pipe.ready = std::max(before, sync.time);
    if (pipe.ready > before) trace(record, before, pipe.ready);
  }
  return true;
}

void CoreTimeline::set(PipeState& pipe, Pipe name, const Record& record, double queued) {
  syncs_[record.sync] = {std::max(pipe.done, std::max(pipe.ready, queued)) + costs_.flag_latency, pipe.last_start,
                         name};
}

void CoreTimeline::mmad(PipeState& pipe, const Record& record, double queued) {
  const double work = static_cast<double>(fractals(record)) + costs_.mmad_overhead;
  double start = std::max(pipe.ready, queued);
  const int blocks = ((record.m + 15) / 16) * ((record.n + 15) / 16);
  if (record.l0c == pipe.l0c && blocks < costs_.mmad_accumulate) {
    start = std::max(start, pipe.last_start + costs_.mmad_accumulate);
  }
  // With the unit flag it may start before the Fixpipe has ended, and follows it block by block.
  start = std::max(start, pipe.unit_end - work);
  pipe.unit_end = 0;
  pipe.l0c = record.l0c;
  pipe.last_start = start;
  pipe.ready = start + work;
  pipe.done = std::max(pipe.done, pipe.ready + costs_.mmad_head);
  busy(pipe, start, pipe.ready);
  trace(record, start, pipe.ready);
}

void CoreTimeline::run(PipeState& pipe, const Record& record, double queued) {
  double cycles = 0;
  switch (record.op) {
    case Op::kLoad:
      cycles = record.bytes / costs_.l1_l0_rate + record.scale_bytes / costs_.l1_scale_rate + costs_.l1_l0_head;
      break;
    case Op::kLoadBias:
      cycles = record.bytes / costs_.l1_bt_rate + costs_.l1_bt_head;
      break;
    case Op::kFill:
      cycles = std::max(record.bytes / costs_.fill_rate, costs_.issue_interval);
      break;
    case Op::kVector:
      cycles = vector_cycles(record.vector);
      break;
    default:
      break;
  }
  const double start = std::max(pipe.ready, queued);
  pipe.last_start = start;
  pipe.ready = start + cycles;
  pipe.done = std::max(pipe.done, pipe.ready);
  busy(pipe, start, pipe.ready);
  trace(record, start, pipe.ready);
}

double CoreTimeline::vector_cycles(const VectorCounts& counts) const {
  const double issue = std::max(counts.issued / costs_.vector_ipc, static_cast<double>(counts.single));
  const double execute = counts.execute_cycles / costs_.vector_execute_ports;
  // UB: two reads, or a read and a write, a cycle.
  const double memory = std::max(static_cast<double>(counts.stores), (counts.loads + counts.stores) / 2.0);
  return costs_.vector_start + costs_.vector_drain + std::max({issue, execute, memory}) +
         counts.barriers * costs_.vector_barrier + counts.loops * costs_.vector_loop;
}

void CoreTimeline::start_transfer(PipeState& pipe, Pipe name, const Record& record, double queued) {
  double start = std::max(pipe.ready, queued);
  if (name == Pipe::kFIX) {
    pipe.moving_from = start;
    pipe.last_start = start;
    start += costs_.fixpipe_fixed;
  } else {
    start = std::max(start, pipe.flights[pipe.transfers % pipe.flights.size()]);
    pipe.moving_from = start;
    pipe.last_start = start;
  }
  pipe.moving = true;
  transfers_.push_back({name, &record, start});
}

void CoreTimeline::transfer_ended(Pipe name, double time, double latency) {
  PipeState& pipe = pipes_[index(name)];
  const Record& record = records_[pipe.queue[(pipe.took - 1) % pipe.queue.size()].record];
  double complete = time + latency;
  if (name == Pipe::kFIX) {
    complete = std::max(complete, pipe.unit_end);
    pipe.unit_end = 0;
  }
  pipe.ready = name == Pipe::kFIX ? complete : time;
  pipe.done = std::max(pipe.done, complete);
  pipe.flights[pipe.transfers++ % pipe.flights.size()] = complete;
  pipe.moving = false;
  busy(pipe, pipe.moving_from, complete);
  trace(record, pipe.moving_from, complete);
}

void CoreTimeline::busy(PipeState& pipe, double start, double end) {
  pipe.busy += std::max(0.0, end - std::max(start, pipe.busy_until));
  pipe.busy_until = std::max(pipe.busy_until, end);
}

void CoreTimeline::trace(const Record& record, double start, double end) {
  if (trace_ != nullptr) {
    trace_->add(trace_core_, record, offset_us_ + start * us_per_cycle_, offset_us_ + end * us_per_cycle_);
  }
}

bool CoreTimeline::idle() const {
  return std::all_of(pipes_.begin(), pipes_.end(),
                     [](const PipeState& pipe) { return pipe.took == pipe.put && !pipe.moving; });
}

bool CoreTimeline::finished() const {
  return at_ == records_.size() && idle();
}

double CoreTimeline::end() const {
  double end = scalar_;
  for (const PipeState& pipe : pipes_) end = std::max(end, pipe.done);
  return end;
}

std::string CoreTimeline::blocked_at() const {
  for (const PipeState& pipe : pipes_) {
    if (pipe.took == pipe.put) continue;
    const Record& record = records_[pipe.queue[pipe.took % pipe.queue.size()].record];
    return std::string(pipe_name(record.pipe)) + " waits at " + record.loc.file + ":" + std::to_string(record.loc.line);
  }
  if (at_ < records_.size()) {
    return std::string("SCALAR waits at ") + records_[at_].loc.file + ":" + std::to_string(records_[at_].loc.line);
  }
  return "nothing";
}

}  // namespace npu_lp::twin
