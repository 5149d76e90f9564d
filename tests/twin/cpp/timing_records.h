// Records as kernels would leave them, made by hand, so that the timing model can be tested without a kernel.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "twin/record.h"

namespace npu_lp::twin {

class Builder {
 public:
  std::vector<Record> records;

  void copy_in(uint64_t gm, uint32_t rows, uint32_t row_bytes, uint64_t pitch, Op op = Op::kCopyIn) {
    add({.op = op,
         .pipe = Pipe::kMTE2,
         .gm = gm,
         .pitch = pitch,
         .rows = rows,
         .row_bytes = row_bytes,
         .bytes = rows * row_bytes});
  }
  void copy_out(uint64_t gm, uint32_t rows, uint32_t row_bytes, uint64_t pitch) {
    add({.op = Op::kCopyOut,
         .pipe = Pipe::kMTE3,
         .gm = gm,
         .pitch = pitch,
         .rows = rows,
         .row_bytes = row_bytes,
         .bytes = rows * row_bytes});
  }
  void load(uint32_t bytes, uint32_t scale_bytes) {
    add({.op = Op::kLoad, .pipe = Pipe::kMTE1, .bytes = bytes, .scale_bytes = scale_bytes});
  }
  void mmad(int m, int n, int k, int c0_shift, int unit_flag = 0) {
    Record record{.op = Op::kMmad, .pipe = Pipe::kM};
    record.m = static_cast<uint16_t>(m);
    record.n = static_cast<uint16_t>(n);
    record.k = static_cast<uint16_t>(k);
    record.c0_shift = static_cast<uint8_t>(c0_shift);
    record.unit_flag = static_cast<uint8_t>(unit_flag);
    if (unit_flag != 0 && unit_token_ != 0) {
      add({.op = Op::kWait, .pipe = Pipe::kM, .sync = std::exchange(unit_token_, 0)});
    }
    add(record);
    if (unit_flag == 3) {
      unit_token_ = ++syncs_;
      add({.op = Op::kSet, .pipe = Pipe::kM, .sync = unit_token_});
    }
  }
  void fixpipe(uint64_t gm, int m, int n, uint32_t element, uint64_t pitch, int unit_flag = 0) {
    if (unit_flag == 3) add({.op = Op::kWait, .pipe = Pipe::kFIX, .sync = std::exchange(unit_token_, 0)});
    Record record{.op = Op::kFixpipe, .pipe = Pipe::kFIX, .gm = gm, .pitch = pitch};
    record.unit_flag = static_cast<uint8_t>(unit_flag);
    record.rows = static_cast<uint32_t>(m);
    record.row_bytes = static_cast<uint32_t>(n) * element;
    record.bytes = record.rows * record.row_bytes;
    add(record);
    if (unit_flag == 3) {
      unit_token_ = ++syncs_;
      add({.op = Op::kSet, .pipe = Pipe::kFIX, .sync = unit_token_});
    }
  }
  void vector(const VectorCounts& counts) {
    Record record{.op = Op::kVector, .pipe = Pipe::kV};
    record.vector = counts;
    add(record);
  }
  void set(Pipe from, Pipe to, int id) {
    uint32_t sync = ++syncs_;
    flags_[{static_cast<int>(from) * 16 + static_cast<int>(to), id}] = sync;
    add({.op = Op::kSet, .pipe = from, .sync = sync});
  }
  void wait(Pipe from, Pipe to, int id) {
    add({.op = Op::kWait, .pipe = to, .sync = flags_.at({static_cast<int>(from) * 16 + static_cast<int>(to), id})});
  }
  void barrier(Pipe pipe) { add({.op = Op::kBarrier, .pipe = pipe}); }
  void barrier_all() { add({.op = Op::kBarrier, .all = true}); }

 private:
  void add(const Record& record) { records.push_back(record); }
  uint32_t syncs_ = 0, unit_token_ = 0;
  std::map<std::pair<int, int>, uint32_t> flags_;
};

// A matmul of row-major A [m, k] and B [n, k] as the published samples tile it: each core has one rectangle of C.
struct MatmulShape {
  int64_t m, n, k;
  int bits = 8;    // of an element
  bool mx = true;  // scales of one byte for 32 elements
  int base_m, base_n, base_k;
  int step_k;      // base_k's in one copy to L1
  int scale_step;  // copies' worth of scales in one copy of scales
  int cores_m, cores_n;
  bool unit_flag = false;
  bool n_outer = true;  // loop over n outside the loop over m
  int rounds = 1;       // the rectangle of C is computed in that many parts of m, all cores one part after another
};

inline LaunchRecord matmul_records(const MatmulShape& s) {
  const uint64_t a = 0x100000000000, b = 0x200000000000, sa = 0x300000000000, sb = 0x400000000000, c = 0x500000000000;
  const uint64_t pitch = s.k * s.bits / 8, scale_pitch = s.k / 32;
  const int c0_shift = s.bits == 16 ? 4 : s.bits == 8 ? 5 : 6;
  const int64_t core_m = s.m / s.cores_m / s.rounds, core_n = s.n / s.cores_n;
  const int k_loops = static_cast<int>(s.k / s.base_k), scale_every = s.step_k * s.scale_step;
  const uint32_t step_bytes = static_cast<uint32_t>(s.base_k) * s.step_k * s.bits / 8;
  LaunchRecord launch{"matmul", CoreKind::kCube, {}};
  for (int core = 0; core < s.cores_m * s.cores_n; ++core) {
    Builder at;
    constexpr Pipe mte2 = Pipe::kMTE2, mte1 = Pipe::kMTE1, cube = Pipe::kM, fix = Pipe::kFIX;
    for (int id = 0; id < 4; ++id) at.set(mte1, mte2, id);
    for (int id = 0; id < 2; ++id) at.set(cube, mte1, id);
    int l0 = 0;
    auto tile = [&](int64_t row, int64_t column) {
      int next_data = 0, next_scale = 0;
      auto copy_data = [&] {
        const int id = next_data / s.step_k % 2;
        at.wait(mte1, mte2, id);
        at.copy_in(a + row * pitch + next_data * s.base_k * s.bits / 8, s.base_m, step_bytes, pitch, Op::kNd2Nz);
        at.copy_in(b + column * pitch + next_data * s.base_k * s.bits / 8, s.base_n, step_bytes, pitch, Op::kNd2Nz);
        at.set(mte2, mte1, id);
        next_data += s.step_k;
      };
      auto copy_scale = [&] {
        const int id = 2 + next_scale / scale_every % 2;
        const int64_t left = s.k - int64_t{next_scale} * s.base_k;
        const uint32_t bytes = static_cast<uint32_t>(std::min<int64_t>(left, int64_t{scale_every} * s.base_k) / 32);
        at.wait(mte1, mte2, id);
        at.copy_in(sa + row * scale_pitch + next_scale * s.base_k / 32, s.base_m, bytes, scale_pitch, Op::kDn2Nz);
        at.copy_in(sb + column * scale_pitch + next_scale * s.base_k / 32, s.base_n, bytes, scale_pitch, Op::kDn2Nz);
        at.set(mte2, mte1, id);
        next_scale += scale_every;
      };
      copy_data();
      if (s.mx) copy_scale();
      for (int k = 0; k < k_loops; ++k) {
        const bool last = k + 1 == k_loops;
        at.wait(cube, mte1, l0);
        if (k % s.step_k == 0) at.wait(mte2, mte1, k / s.step_k % 2);
        if (s.mx && k % scale_every == 0) at.wait(mte2, mte1, 2 + k / scale_every % 2);
        at.load(s.base_m * s.base_k * s.bits / 8, s.mx ? s.base_m * s.base_k / 32 : 0);
        at.load(s.base_n * s.base_k * s.bits / 8, s.mx ? s.base_n * s.base_k / 32 : 0);
        if ((k + 1) % s.step_k == 0 || last) at.set(mte1, mte2, k / s.step_k % 2);
        if (s.mx && ((k + 1) % scale_every == 0 || last)) at.set(mte1, mte2, 2 + k / scale_every % 2);
        at.set(mte1, cube, l0);
        at.wait(mte1, cube, l0);
        at.mmad(s.base_m, s.base_n, s.base_k, c0_shift, s.unit_flag ? (last ? 3 : 2) : 0);
        at.set(cube, mte1, l0);
        l0 ^= 1;
        if ((k == 0 || (k + 1) % s.step_k == 0) && next_data < k_loops) copy_data();
        if (s.mx && (k == 0 || (k + 1) % scale_every == 0) && next_scale < k_loops) copy_scale();
      }
      const uint64_t out = c + (row * s.n + column) * 2;
      if (s.unit_flag) {
        at.fixpipe(out, s.base_m, s.base_n, 2, s.n * 2, 3);
      } else {
        at.set(cube, fix, 0);
        at.wait(cube, fix, 0);
        at.fixpipe(out, s.base_m, s.base_n, 2, s.n * 2);
        at.set(fix, cube, 0);
        at.wait(fix, cube, 0);
      }
    };
    for (int round = 0; round < s.rounds; ++round) {
      const int64_t m0 = (core % s.cores_m + round * s.cores_m) * core_m, n0 = core / s.cores_m * core_n;
      const int m_tiles = static_cast<int>(core_m / s.base_m), n_tiles = static_cast<int>(core_n / s.base_n);
      for (int outer = 0; outer < (s.n_outer ? n_tiles : m_tiles); ++outer) {
        for (int inner = 0; inner < (s.n_outer ? m_tiles : n_tiles); ++inner) {
          tile(m0 + (s.n_outer ? inner : outer) * s.base_m, n0 + (s.n_outer ? outer : inner) * s.base_n);
        }
      }
    }
    launch.cores.push_back(std::move(at.records));
  }
  return launch;
}

}  // namespace npu_lp::twin
