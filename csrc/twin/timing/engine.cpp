#include "twin/timing/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <queue>
#include <stdexcept>
#include <utility>

#include "twin/timing/core_timeline.h"
#include "twin/timing/l2_cache.h"

namespace npu_lp::twin {
namespace {

// Empty kernels, measured; blocks between two measurements by a straight line.
double launch_time(int blocks, const CostTable& costs) {
  const std::pair<int, double> points[] = {{1, costs.launch_1},
                                           {32, costs.launch_32},
                                           {64, costs.launch_64},
                                           {128, costs.launch_128},
                                           {1024, costs.launch_1024}};
  const int last = static_cast<int>(std::size(points)) - 1;
  int i = 1;
  while (i < last && blocks > points[i].first) ++i;
  const auto [left, from] = points[i - 1];
  const auto [right, to] = points[i];
  return from + (to - from) * (blocks - left) / (right - left);
}

class Engine {
 public:
  Engine(const LaunchRecord& launch, const Sku& sku, const CostTable& costs, Trace* trace)
      : launch_(launch),
        costs_(costs),
        trace_(trace),
        cube_(launch.kind == CoreKind::kCube),
        cores_(cube_ ? sku.cube_cores : sku.vector_cores),
        us_per_cycle_(1e-3 / sku.clock_ghz),
        l2_(uint64_t{1048576} * sku.l2_mib, static_cast<int>(costs.l2_ways)),
        bandwidth_(costs.l2_per_core * sku.cube_cores, sku.hbm_rate * sku.cube_cores, 2 * cores_),
        running_(cores_),
        moving_(2 * cores_) {
    result_.kernel = launch.kernel;
    result_.kind = launch.kind;
    result_.clock_ghz = sku.clock_ghz;
    result_.launch_us = launch_time(std::max<int>(1, static_cast<int>(launch.cores.size())), costs);
    result_.blocks.resize(launch.cores.size());
  }

  TimingResult run() {
    // Blocks beyond the number of cores follow on the same core.
    for (int core = 0; core < cores_; ++core) start_block(core, core, 0);
    double now = 0;
    std::vector<int> ended;
    while (true) {
      const double start = starts_.empty() ? std::numeric_limits<double>::infinity() : starts_.top().time;
      const double end = bandwidth_.next_end();
      if (std::isinf(start) && std::isinf(end)) break;
      now = std::min(start, end);
      ended.clear();
      bandwidth_.advance(now, ended);
      for (int slot : ended) {
        const int core = slot / 2;
        running_[core].timeline->transfer_ended(moving_[slot].pipe, now, moving_[slot].latency);
        go_on(core);
      }
      while (!starts_.empty() && starts_.top().time <= now) {
        const Start next = starts_.top();
        starts_.pop();
        begin(next);
      }
    }
    finish();
    return std::move(result_);
  }

 private:
  struct Start {
    double time;
    int core;
    Pipe pipe;
    const Record* record;
    bool operator<(const Start& other) const {  // earliest on top; by core among equals, so that results do not vary
      return time != other.time ? time > other.time : core > other.core;
    }
  };
  struct Running {
    std::unique_ptr<CoreTimeline> timeline;
    int block = -1;
    double start = 0;
  };
  struct Moving {
    Pipe pipe;
    double latency;
  };

  void start_block(int core, int block, double time) {
    Running& running = running_[core];
    if (block >= static_cast<int>(launch_.cores.size())) {
      running.timeline.reset();
      return;
    }
    running = {std::make_unique<CoreTimeline>(launch_.cores[block], launch_.kind, time, costs_), block, time};
    if (trace_ != nullptr) running.timeline->set_trace(trace_, core, us_per_cycle_, result_.launch_us);
    go_on(core);
  }

  void go_on(int core) {
    Running& running = running_[core];
    running.timeline->advance();
    for (const CoreTimeline::Transfer& transfer : running.timeline->transfers()) {
      starts_.push({transfer.start, core, transfer.pipe, transfer.record});
    }
    running.timeline->transfers().clear();
    if (!running.timeline->finished()) return;
    BlockTiming& timing = result_.blocks[running.block];
    timing.start_us = result_.launch_us + running.start * us_per_cycle_;
    timing.end_us = result_.launch_us + running.timeline->end() * us_per_cycle_;
    timing.counters = count(launch_.cores[running.block], launch_.kind);
    for (int pipe = 0; pipe < kPipes; ++pipe) {
      timing.pipes[pipe] = {running.timeline->pipe_busy(static_cast<Pipe>(pipe)) * us_per_cycle_,
                            running.timeline->pipe_instructions(static_cast<Pipe>(pipe))};
    }
    start_block(core, running.block + cores_, running.timeline->end());
  }

  void begin(const Start& start) {
    const Record& record = *start.record;
    const bool write = record.op == Op::kFixpipe || record.op == Op::kCopyOut;
    const double bytes = static_cast<double>(record.rows) * record.row_bytes;
    const int ai_core = cube_ ? start.core : start.core / 2;
    const int slot = 2 * start.core + (write ? 1 : 0);
    const double latency = write ? (cube_ ? 0 : costs_.latency_write) : (cube_ ? costs_.latency_l1 : costs_.latency_ub);
    const double port = write ? costs_.write_port : costs_.read_port;
    const double own_port = cube_ ? port : (write ? costs_.write_port_vector : costs_.read_port_vector);

    L2Cache::Access access;
    const double arrival = start.time + latency + costs_.latency_miss;
    for (uint32_t row = 0; row < record.rows; ++row) {
      const double behind = static_cast<double>(row) * record.row_bytes / own_port;
      l2_.touch(record.gm + row * record.pitch, record.row_bytes, write, start.time + behind, arrival + behind, access);
    }
    result_.l2_hit += write ? 0 : access.hit;
    result_.hbm_read += access.fetched;
    result_.hbm_written += access.write_back;

    const double late = static_cast<double>(access.miss + access.pending);
    double cycles = bytes / own_port;
    double complete = latency;
    if (!write) {
      if (record.rows > 1) {
        const bool aligned = record.gm % 128 == 0 && record.pitch % 128 == 0;
        cycles += record.rows * (costs_.nd2nz_row + (aligned || !cube_ ? 0 : costs_.unaligned_row));
      }
      if (record.op == Op::kDn2Nz) cycles *= costs_.dn2nz_factor;
      if (cube_ && bytes > 0) cycles = std::max(cycles, record.rows * costs_.nd2nz_row_miss * access.miss / bytes);
      cycles = std::max(cycles, (bytes * latency + late * costs_.latency_miss) / costs_.request_window);
      cycles = std::max(cycles, costs_.issue_interval);
      if (late > 0) complete += access.miss > 0 ? costs_.latency_miss : std::min(costs_.latency_miss, access.wait);
    }
    const double hbm = access.fetched + access.pieces * costs_.hbm_piece + access.write_back;
    moving_[slot] = {start.pipe, complete};
    const double moved = std::max(bytes, 1.0);
    bandwidth_.start(slot, moved, moved / std::max(cycles, 1.0), hbm / moved, 2 * ai_core + (write ? 1 : 0), port);
  }

  void finish() {
    for (const Running& running : running_) {
      if (running.timeline != nullptr) {
        throw std::runtime_error(launch_.kernel + ", block " + std::to_string(running.block) +
                                 " never ends: " + running.timeline->blocked_at());
      }
    }
    result_.total_us = result_.launch_us;
    for (const BlockTiming& block : result_.blocks) {
      result_.total_us = std::max(result_.total_us, block.end_us);
      result_.total += block.counters;
      for (int pipe = 0; pipe < kPipes; ++pipe) {
        result_.busy_us[pipe] += block.pipes[pipe].busy_us;
        result_.instructions[pipe] += block.pipes[pipe].instructions;
      }
    }
    const double used = std::min<double>(cores_, static_cast<double>(result_.blocks.size()));
    for (int pipe = 0; pipe < kPipes; ++pipe) {
      result_.busy_us[pipe] /= std::max(1.0, used);
      result_.busy_share[pipe] = result_.busy_us[pipe] / result_.total_us;
    }
    result_.read_limits = bandwidth_.limits(false);
    result_.write_limits = bandwidth_.limits(true);
  }

  const LaunchRecord& launch_;
  const CostTable& costs_;
  Trace* trace_;
  const bool cube_;
  const int cores_;
  const double us_per_cycle_;
  L2Cache l2_;
  Bandwidth bandwidth_;
  std::vector<Running> running_;
  std::vector<Moving> moving_;
  std::priority_queue<Start> starts_;
  TimingResult result_;
};

}  // namespace

std::string TimingResult::bound_by() const {
  int longest = 0;
  for (int pipe = 1; pipe < kPipes; ++pipe) {
    if (busy_share[pipe] > busy_share[longest]) longest = pipe;
  }
  const Pipe pipe = static_cast<Pipe>(longest);
  std::string text = pipe_name(pipe);
  if (busy_share[longest] < 0.5) return "launch and latency (longest pipe: " + text + ")";
  if (pipe == Pipe::kMTE2 || pipe == Pipe::kMTE3 || pipe == Pipe::kFIX) {
    const Bandwidth::Limits& limits = pipe == Pipe::kMTE2 ? read_limits : write_limits;
    const double most = std::max({limits.own, limits.l2, limits.hbm});
    text += most == limits.hbm ? " (HBM bandwidth)" : most == limits.l2 ? " (L2 bandwidth)" : " (the core's own port)";
  }
  return text;
}

TimingResult simulate(const LaunchRecord& launch, const Sku& sku, const CostTable& costs, Trace* trace) {
  return Engine(launch, sku, costs, trace).run();
}

}  // namespace npu_lp::twin
