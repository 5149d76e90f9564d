// Every figure of the timing model, in one table. "section" is the section of the reference ascend950-costs.md that the
// value is from; the tags are that file's: stated (by the vendor, for this chip), stated-other (for another chip),
// simulated, measured, derived, assumption, and here also fitted: moved within the range given, by the calibration that
// docs/twin.md describes. Cycles are of the SKU's clock.
#pragma once

#include <string>
#include <vector>

namespace npu_lp::twin {

// X(name, value, unit, range, tag, section and why)
// clang-format off
#define NPU_LP_COSTS(X)                                                                                                \
  /* Scalar unit */                                                                                                    \
  X(scalar_issue, 15, "cycles", "1-20", "derived",                                                                     \
    "3.3, 4.1: scalar time of the fp16 (58 cycles a K step) and mxfp4 (101) matmuls over 4 instructions a step")       \
  X(scalar_flag, 1, "cycles", "1", "assumption", "3.4 issue of SetFlag, WaitFlag, PipeBarrier")                        \
  X(queue_depth, 32, "instructions", "32", "stated-other", "2.4 issue queue of a pipe, documented for dav-2201")       \
  X(gm_scalar_miss, 400, "cycles", "200-700", "assumption", "3.3 data cache miss of a scalar read")                    \
  X(gm_scalar_hit, 10, "cycles", "6-15", "assumption", "3.3 scalar access")                                            \
  X(scalar_cache_line, 64, "bytes", "64", "stated", "2.1 data cache line")                                             \
  X(prologue_cube, 6000, "cycles", "900-9060", "fitted",                                                               \
    "3.3 scalar prologues of 4117-9060 measured; fitted to mxfp8 2048^3, where the start weighs most")                 \
  X(prologue_vector, 600, "cycles", "0-9060", "derived", "2.4 data_copy: 188.5/208.6 - 185.7/206.0 - 2.16 us, same")   \
  /* Order between pipes */                                                                                            \
  X(flag_latency, 15, "cycles", "5-40", "assumption", "3.4 source complete to waiter released")                        \
  X(barrier_pipe, 10, "cycles", "5-40", "assumption", "3.4 after the pipe has drained")                                \
  X(barrier_all, 30, "cycles", "20-80", "assumption", "3.4 after all pipes have drained")                              \
  /* Cube */                                                                                                           \
  X(mmad_head, 25, "cycles", "21-25", "stated", "1.3 latency of the first result, overlaps the next Mmad")             \
  X(mmad_overhead, 8, "cycles", "0.3-23", "derived", "1.3 silicon 2-9 (fp16), 7.5 (mxfp4), 14-23 (mxfp8)")             \
  X(mmad_accumulate, 10, "cycles", "8-16", "assumption", "1.3 between issues to one L0C block of fewer fractals")      \
  X(unit_block, 2, "cycles", "1-8", "derived", "1.3 unitFlag works by 512 B: two fractal cycles of 256 B")             \
  /* On-chip paths of a cube core */                                                                                   \
  X(l1_l0_rate, 256, "B/cycle", "256", "stated", "2.2 L1 to L0A, L0B")                                                 \
  X(l1_scale_rate, 32, "B/cycle", "32", "stated", "2.2 L1 to L0A_MX, L0B_MX, added to the data's time")                \
  X(l1_l0_head, 40, "cycles", "28-55", "stated", "2.2 head 30 + issue 10; silicon 39 (fp16), 45, 60 a LoadData")       \
  X(l1_bt_rate, 32, "B/cycle", "32", "stated", "2.2 L1 to BT")                                                         \
  X(l1_bt_head, 20, "cycles", "20", "stated", "2.2 L1 to BT")                                                          \
  X(fill_rate, 128, "B/cycle", "64-256", "assumption", "nothing public on Fill of L1; that of UB to L1 in 2.2")        \
  X(fixpipe_fixed, 283, "cycles", "135-350", "derived", "2.3 fit to two measured tile sizes, at 94 B/cycle")           \
  /* GM ports of a core */                                                                                             \
  X(read_port, 100, "B/cycle", "86-121", "stated", "2.4 L2 to one AI core: its AIC, or its two AIV together")          \
  X(read_port_vector, 60, "B/cycle", "45-61", "simulated", "2.4 one AIV")                                              \
  X(write_port, 94, "B/cycle", "57-100", "simulated", "2.4 AIC, or two AIV together")                                  \
  X(write_port_vector, 42, "B/cycle", "40-47", "stated", "2.4 one AIV, UB to L2")                                      \
  X(latency_l1, 140, "cycles", "112-280", "simulated", "2.4 GM to L1, L2 hit")                                         \
  X(latency_ub, 220, "cycles", "176-440", "simulated", "2.4 GM to UB, L2 hit")                                         \
  X(latency_write, 280, "cycles", "150-500", "simulated", "2.4 UB to GM until the flag can be set")                    \
  X(latency_miss, 300, "cycles", "200-650", "assumption", "2.4 on top, for an L2 miss")                                \
  X(issue_interval, 39, "cycles", "30-45", "derived", "2.4 between starts on MTE2: 881 us for 302 MB in 128 B")        \
  X(dma_in_flight, 16, "instructions", "4-16", "assumption", "2.4; 39 cycles apart at a latency of 520 needs 14")     \
  X(request_window, 32768, "bytes", "16384-65536", "assumption",                                                       \
    "2.4 reads of one AI core on their way: 8 (4-16) DMA pieces of 4 KB; bounds the rate by window / latency")         \
  X(nd2nz_row, 0.8, "cycles", "0.5-5.2", "derived",                                                                    \
    "2.4, 4.1: MTE2 time of the fp16, mxfp4 and mxfp8 matmuls = bytes/100 + 0.79 a row, all three within 0.3 %; the "  \
    "4.65 a row of 2.4 is of rows of 128 B from HBM (nd2nz_row_miss) and its own 256 B row contradicts it")            \
  X(nd2nz_row_miss, 5.2, "cycles", "4-5.2", "derived", "2.4 least time of a row that misses L2 (rows of 128 B)")       \
  X(dn2nz_factor, 1.0, "x", "1-3", "assumption", "2.4 DN2NZ over ND2NZ, nothing public")                               \
  X(unaligned_row, 0.5, "cycles", "0-3", "derived", "2.4 ND2NZ rows not on 128 B: 202.97 against 187.19 us")           \
  /* Memory shared by all cores */                                                                                     \
  X(l2_per_core, 98.5, "B/cycle", "85-104", "stated", "2.4 5.2 TB/s (4.5-5.5) over 32 cores at 1.65 GHz")              \
  X(hbm_piece, 13, "bytes", "0-32", "derived", "2.4 lost per contiguous piece: 1.466 TB/s at 128 B, 1.627 at 2 KB")    \
  X(l2_line, 512, "bytes", "512", "stated", "2.1 with 128 B sectors")                                                  \
  X(l2_ways, 16, "ways", "8-32", "assumption", "associativity is not public")                                          \
  /* Vector core */                                                                                                    \
  X(vector_start, 42, "cycles", "23-60", "simulated", "3.2 start 23 + first loop 19")                                  \
  X(vector_drain, 12, "cycles", "12", "simulated", "3.2")                                                              \
  X(vector_loop, 7, "cycles", "1-7", "simulated", "3.2 gap of a further loop")                                         \
  X(vector_ipc, 1.5, "instructions/cycle", "1.03-2", "measured", "3.2 limit 2, good kernels 1.4-1.5; GELU 1.5")        \
  X(vector_execute_ports, 2, "ports", "2", "simulated", "3.2")                                                         \
  X(vector_barrier, 20, "cycles", "20", "assumption", "3.2 LocalMemBar")                                               \
  /* Launch: empty kernels of 1, 32, 64, 128 and 1024 blocks */                                                        \
  X(launch_1, 1.455, "us", "1.455", "measured", "3.5")                                                                 \
  X(launch_32, 1.589, "us", "1.589", "measured", "3.5")                                                                \
  X(launch_64, 2.160, "us", "2.160", "measured", "3.5")                                                                \
  X(launch_128, 3.373, "us", "3.373", "measured", "3.5")                                                               \
  X(launch_1024, 15.996, "us", "15.996", "measured", "3.5")
// clang-format on

struct CostTable {
#define NPU_LP_FIELD(name, value, unit, range, tag, source) double name = value;
  NPU_LP_COSTS(NPU_LP_FIELD)
#undef NPU_LP_FIELD
};

struct CostRow {
  const char* name;
  double CostTable::* field;
  const char* unit;
  const char* range;
  const char* tag;
  const char* source;
};

// Rows of the table above, to print and to change by name.
inline const std::vector<CostRow>& cost_rows() {
  static const std::vector<CostRow> rows = {
#define NPU_LP_ROW(name, value, unit, range, tag, source) {#name, &CostTable::name, unit, range, tag, source},
      NPU_LP_COSTS(NPU_LP_ROW)
#undef NPU_LP_ROW
  };
  return rows;
}

inline CostTable default_costs() {
  return {};
}

// One product, by the name of its vendor configuration (section 1.1, all stated).
struct Sku {
  const char* name;
  int cube_cores;
  int vector_cores;
  double clock_ghz;
  double hbm_rate;  // bytes a cycle and AI core, for all of them at once
  int l2_mib;
};

inline const std::vector<Sku>& skus() {
  static const std::vector<Sku> all = {
      {"950PR_9589", 32, 64, 1.65, 31, 128},
      {"950PR_958b", 32, 64, 1.65, 27, 112},
      {"950PR_9579", 28, 56, 1.65, 31, 128},
      {"950PR_957b", 28, 56, 1.65, 27, 112},
      {"950PR_957d", 28, 56, 1.65, 23, 96},
      {"950PR_9599", 36, 72, 1.80, 31, 128},
      {"950DT_9581", 32, 64, 1.65, 80, 128},
      {"950DT_9583", 32, 64, 1.65, 70, 112},
      {"950DT_9587", 32, 64, 1.65, 54, 112},
      {"950DT_9591", 36, 72, 1.80, 64, 128},  // 80 in its file; capped at 4.15 TB/s
  };
  return all;
}

// The SKU of that name, or nullptr. 950PR_9589 has 32 cube and 64 vector cores.
inline const Sku* find_sku(const std::string& name) {
  for (const Sku& sku : skus()) {
    if (name == sku.name) return &sku;
  }
  return nullptr;
}

inline const Sku& default_sku() {
  return skus().front();
}

}  // namespace npu_lp::twin
