// The timing model: when each instruction of a launch runs, from its records and the cost table.
//
// Within a core, the scalar unit goes through the records in program order and puts each on its pipe's queue; pipes
// take from their queues in order; flags, barriers and full queues make them wait. All of that is arithmetic on times,
// done as far as times are known. A transfer from or to GM is the exception: how long it takes depends on what other
// cores do at that time, so transfers of all cores start and end in the order of one global clock (bandwidth.h), and
// each first asks the L2 model (l2_cache.h) which of its bytes are there.
//
// Not in the model: conflicts of UB and L1 banks, several cores at one address, the two dies, caches of instructions.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "twin/record.h"
#include "twin/timing/bandwidth.h"
#include "twin/timing/costs.h"
#include "twin/timing/counters.h"
#include "twin/timing/trace.h"

namespace npu_lp::twin {

struct PipeTiming {
  double busy_us = 0;  // time with an instruction in work (a Fixpipe with unit flag: also waiting for its block)
  uint64_t instructions = 0;
};

struct BlockTiming {
  double start_us = 0, end_us = 0;
  std::array<PipeTiming, kPipes> pipes;
  Counters counters;
};

struct TimingResult {
  std::string kernel;
  CoreKind kind = CoreKind::kVector;
  double total_us = 0;  // as msprof's Task Duration
  double launch_us = 0;
  double clock_ghz = 0;
  // Average of all blocks; the share is of total_us.
  std::array<double, kPipes> busy_us{};
  std::array<double, kPipes> busy_share{};
  std::array<uint64_t, kPipes> instructions{};  // of all blocks
  Counters total;
  std::vector<BlockTiming> blocks;
  // Of the bytes asked from GM, those found in L2; bytes that HBM delivered and took.
  uint64_t l2_hit = 0, hbm_read = 0, hbm_written = 0;
  Bandwidth::Limits read_limits, write_limits;

  // The pipe busy longest and, for MTE pipes, what holds its transfers back, e.g. "MTE2 (HBM bandwidth)".
  std::string bound_by() const;
};

// Throws std::runtime_error if a record waits for something that never comes.
TimingResult simulate(const LaunchRecord& launch, const Sku& sku = default_sku(),
                      const CostTable& costs = default_costs(), Trace* trace = nullptr);

}  // namespace npu_lp::twin
