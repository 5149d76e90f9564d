// Runs cases of the timing model and prints one line of figures each; tests/twin/test_timing.py judges them.
//   test_timing [name=value]... CASE...      name: a parameter of costs.h to change
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "timing_records.h"
#include "twin/timing/engine.h"

namespace npu_lp::twin {
namespace {

LaunchRecord empty(int blocks) {
  LaunchRecord launch{"empty", CoreKind::kVector, {}};
  launch.cores.resize(blocks);
  return launch;
}

// data_copy sample: a [12288, 12288] half matrix, read once in tiles.
LaunchRecord copy(CoreKind kind, int tile_m, int tile_n, Op op) {
  const int n = 12288, cores = kind == CoreKind::kCube ? 32 : 64, rows = n / cores;
  LaunchRecord launch{"copy", kind, {}};
  for (int core = 0; core < cores; ++core) {
    Builder at;
    for (int m = 0; m < rows; m += tile_m) {
      for (int column = 0; column < n; column += tile_n) {
        const uint64_t row = static_cast<uint64_t>(core) * rows + m;
        at.copy_in(0x100000000000 + (row * n + column) * 2, tile_m, tile_n * 2, n * 2, op);
      }
    }
    launch.cores.push_back(std::move(at.records));
  }
  return launch;
}

// The same, each part of a quarter of the columns read four times in turn.
LaunchRecord copy_quarters(CoreKind kind, Op op) {
  const int n = 12288, cores = kind == CoreKind::kCube ? 32 : 64, rows = n / cores;
  LaunchRecord launch{"copy_quarters", kind, {}};
  for (int core = 0; core < cores; ++core) {
    Builder at;
    for (int quarter = 0; quarter < 4; ++quarter) {
      for (int repeat = 0; repeat < 4; ++repeat) {
        for (int m = 0; m < rows; m += 64) {
          for (int column = quarter * 3072; column < (quarter + 1) * 3072; column += 1024) {
            const uint64_t row = static_cast<uint64_t>(core) * rows + m;
            at.copy_in(0x100000000000 + (row * n + column) * 2, 64, 2048, n * 2, op);
          }
        }
      }
    }
    launch.cores.push_back(std::move(at.records));
  }
  return launch;
}

// GELU of 8192 x 8192 float, 64 vector cores: 8 operations, a load and a store for each register of 64.
LaunchRecord gelu(bool memory) {
  LaunchRecord launch{"gelu", CoreKind::kVector, {}};
  for (int core = 0; core < 64; ++core) {
    Builder at;
    const int tiles = 64;
    constexpr Pipe mte2 = Pipe::kMTE2, mte3 = Pipe::kMTE3, vec = Pipe::kV;
    for (int tile = 0; tile < tiles; ++tile) {
      const uint64_t offset = (static_cast<uint64_t>(core) * tiles + tile) * 65536;
      const int buffer = tile % 2;
      if (memory) {
        if (tile >= 2) at.wait(vec, mte2, buffer);
        at.copy_in(0x100000000000 + offset, 1, 65536, 65536);
        at.set(mte2, vec, buffer);
        at.wait(mte2, vec, buffer);
        if (tile >= 2) at.wait(mte3, vec, buffer);
      }
      at.vector({.issued = 256 * 10, .single = 256, .execute_cycles = 256 * 8, .loads = 256, .stores = 256});
      if (memory) {
        at.set(vec, mte2, buffer);
        at.set(vec, mte3, buffer);
        at.wait(vec, mte3, buffer);
        at.copy_out(0x200000000000 + offset, 1, 65536, 65536);
        at.set(mte3, vec, buffer);
      }
    }
    launch.cores.push_back(std::move(at.records));
  }
  return launch;
}

// One core: n Mmads of 256 x 256 x 128 fp8, nothing else.
LaunchRecord mmads(int count) {
  Builder at;
  for (int i = 0; i < count; ++i) at.mmad(256, 256, 128, 5);
  return {"mmads", CoreKind::kCube, {at.records}};
}

// One core, a load and an Mmad that must alternate (one buffer) or may overlap (two).
LaunchRecord ping_pong(int buffers) {
  Builder at;
  for (int i = 0; i < 100; ++i) {
    const int id = i % buffers;
    if (i >= buffers) at.wait(Pipe::kM, Pipe::kMTE1, id);
    at.load(65536, 0);
    at.set(Pipe::kMTE1, Pipe::kM, id);
    at.wait(Pipe::kMTE1, Pipe::kM, id);
    at.mmad(256, 256, 64, 5);
    at.set(Pipe::kM, Pipe::kMTE1, id);
  }
  return {"ping_pong", CoreKind::kCube, {at.records}};
}

LaunchRecord never_set() {
  Builder at;
  at.load(1024, 0);
  at.records.push_back({.op = Op::kWait, .pipe = Pipe::kMTE1, .sync = 7, .loc = {"kernel.h", 12}});
  return {"never_set", CoreKind::kCube, {at.records}};
}

MatmulShape fp16(bool unit_flag) {
  return {.m = 8192,
          .n = 8192,
          .k = 8192,
          .bits = 16,
          .mx = false,
          .base_m = 256,
          .base_n = 256,
          .base_k = 64,
          .step_k = 4,
          .scale_step = 1,
          .cores_m = 4,
          .cores_n = 8,
          .unit_flag = unit_flag};
}
MatmulShape mxfp4(int64_t m, int64_t n, int64_t k, int cores_m, int cores_n) {
  return {.m = m,
          .n = n,
          .k = k,
          .bits = 4,
          .base_m = 256,
          .base_n = 256,
          .base_k = 256,
          .step_k = 2,
          .scale_step = 4,
          .cores_m = cores_m,
          .cores_n = cores_n};
}
MatmulShape mxfp8(int64_t size) {
  return {.m = size,
          .n = size,
          .k = size,
          .bits = 8,
          .base_m = 128,
          .base_n = 256,
          .base_k = 128,
          .step_k = 4,
          .scale_step = 8,
          .cores_m = 4,
          .cores_n = 8,
          .n_outer = false};
}

const std::map<std::string, std::function<LaunchRecord()>>& cases() {
  static const std::map<std::string, std::function<LaunchRecord()>> all = {
      {"empty1", [] { return empty(1); }},
      {"empty32", [] { return empty(32); }},
      {"empty64", [] { return empty(64); }},
      {"copy_128B", [] { return copy(CoreKind::kVector, 1, 64, Op::kCopyIn); }},
      {"copy_8KB", [] { return copy(CoreKind::kVector, 64, 64, Op::kCopyIn); }},
      {"copy_128KB", [] { return copy(CoreKind::kVector, 64, 1024, Op::kCopyIn); }},
      {"copy_quarters", [] { return copy_quarters(CoreKind::kVector, Op::kCopyIn); }},
      {"nd2nz_quarters", [] { return copy_quarters(CoreKind::kCube, Op::kNd2Nz); }},
      {"nd2nz_128", [] { return copy(CoreKind::kCube, 64, 64, Op::kNd2Nz); }},
      {"nd2nz_512", [] { return copy(CoreKind::kCube, 64, 256, Op::kNd2Nz); }},
      {"gelu_vector", [] { return gelu(false); }},
      {"gelu_memory", [] { return gelu(true); }},
      {"mmads", [] { return mmads(100); }},
      {"one_buffer", [] { return ping_pong(1); }},
      {"two_buffers", [] { return ping_pong(2); }},
      {"never_set", [] { return never_set(); }},
      {"fp16_8192", [] { return matmul_records(fp16(true)); }},
      {"fp16_8192_flag", [] { return matmul_records(fp16(false)); }},
      {"mxfp4_8192", [] { return matmul_records(mxfp4(8192, 8192, 8192, 4, 8)); }},
      {"mxfp8_2048", [] { return matmul_records(mxfp8(2048)); }},
      {"mxfp8_4096", [] { return matmul_records(mxfp8(4096)); }},
      {"mxfp8_6144", [] { return matmul_records(mxfp8(6144)); }},
      {"mxfp8_8192", [] { return matmul_records(mxfp8(8192)); }},
  };
  return all;
}

void run(const std::string& name, const CostTable& costs) {
  const LaunchRecord launch = cases().at(name)();
  const auto from = std::chrono::steady_clock::now();
  size_t records = 0;
  for (const auto& core : launch.cores) records += core.size();
  TimingResult result;
  try {
    result = simulate(launch, default_sku(), costs);
  } catch (const std::exception& error) {
    std::printf("{\"case\": \"%s\", \"error\": \"%s\"}\n", name.c_str(), error.what());
    return;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - from;
  std::printf("{\"case\": \"%s\", \"us\": %.3f", name.c_str(), result.total_us);
  for (int pipe = 0; pipe < kPipes; ++pipe) {
    std::printf(", \"%s\": %.4f", pipe_name(static_cast<Pipe>(pipe)), result.busy_share[pipe]);
  }
  std::printf(", \"gm_read\": %llu, \"l2_hit\": %llu, \"hbm_read\": %llu, \"hbm_written\": %llu, \"fractals\": %llu",
              static_cast<unsigned long long>(result.total.gm_read()), static_cast<unsigned long long>(result.l2_hit),
              static_cast<unsigned long long>(result.hbm_read), static_cast<unsigned long long>(result.hbm_written),
              static_cast<unsigned long long>(result.total.fractals));
  std::printf(", \"bound_by\": \"%s\", \"records\": %zu, \"seconds\": %.2f}\n", result.bound_by().c_str(), records,
              seconds.count());
}

}  // namespace
}  // namespace npu_lp::twin

int main(int count, char** arguments) {
  using namespace npu_lp::twin;
  CostTable costs;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const size_t equals = argument.find('=');
    if (equals == std::string::npos) {
      if (cases().count(argument) == 0) {
        std::fprintf(stderr, "no case %s\n", argument.c_str());
        return 1;
      }
      run(argument, costs);
      continue;
    }
    for (const CostRow& row : cost_rows()) {
      if (argument.substr(0, equals) == row.name) costs.*row.field = std::atof(argument.c_str() + equals + 1);
    }
  }
}
