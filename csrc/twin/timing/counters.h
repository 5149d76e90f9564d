// What a kernel moved and computed, counted from its records alone: independent of every cost.
#pragma once

#include <cstdint>
#include <vector>

#include "twin/record.h"

namespace npu_lp::twin {

struct Counters {
  uint64_t gm_to_l1 = 0;  // bytes of a path
  uint64_t gm_to_ub = 0;
  uint64_t l1_to_l0 = 0;
  uint64_t l1_to_l0_scale = 0;
  uint64_t l1_to_bt = 0;
  uint64_t l0c_to_gm = 0;
  uint64_t ub_to_gm = 0;
  uint64_t mmads = 0;
  uint64_t fractals = 0;  // one a cycle at best
  uint64_t macs = 0;      // of the m, n, k given, unpadded
  uint64_t vector_calls = 0;
  uint64_t vector_instructions = 0;
  uint64_t copies = 0;  // instructions that touch GM
  uint64_t flags = 0;   // set and wait
  uint64_t barriers = 0;

  uint64_t gm_read() const { return gm_to_l1 + gm_to_ub; }
  uint64_t gm_written() const { return l0c_to_gm + ub_to_gm; }

  Counters& operator+=(const Counters& other) {
    gm_to_l1 += other.gm_to_l1;
    gm_to_ub += other.gm_to_ub;
    l1_to_l0 += other.l1_to_l0;
    l1_to_l0_scale += other.l1_to_l0_scale;
    l1_to_bt += other.l1_to_bt;
    l0c_to_gm += other.l0c_to_gm;
    ub_to_gm += other.ub_to_gm;
    mmads += other.mmads;
    fractals += other.fractals;
    macs += other.macs;
    vector_calls += other.vector_calls;
    vector_instructions += other.vector_instructions;
    copies += other.copies;
    flags += other.flags;
    barriers += other.barriers;
    return *this;
  }
};

// Fractals of one Mmad: 16 x 16 outputs by 2^c0_shift of K, each one cycle.
inline uint64_t fractals(const Record& record) {
  uint64_t k_step = uint64_t{1} << record.c0_shift;
  return uint64_t{(record.m + 15u) / 16} * ((record.n + 15u) / 16) * ((record.k + k_step - 1) / k_step);
}

inline Counters count(const std::vector<Record>& records, CoreKind kind) {
  Counters sum;
  for (const Record& record : records) {
    uint64_t gm = uint64_t{record.rows} * record.row_bytes;
    switch (record.op) {
      case Op::kCopyIn:
      case Op::kNd2Nz:
      case Op::kDn2Nz:
        (kind == CoreKind::kCube ? sum.gm_to_l1 : sum.gm_to_ub) += gm;
        ++sum.copies;
        break;
      case Op::kLoad:
        sum.l1_to_l0 += record.bytes;
        sum.l1_to_l0_scale += record.scale_bytes;
        break;
      case Op::kLoadBias:
        sum.l1_to_bt += record.bytes;
        break;
      case Op::kMmad:
        ++sum.mmads;
        sum.fractals += fractals(record);
        sum.macs += uint64_t{record.m} * record.n * record.k;
        break;
      case Op::kFixpipe:
        sum.l0c_to_gm += gm;
        ++sum.copies;
        break;
      case Op::kCopyOut:
        sum.ub_to_gm += gm;
        ++sum.copies;
        break;
      case Op::kVector:
        ++sum.vector_calls;
        sum.vector_instructions += record.vector.issued;
        break;
      case Op::kSet:
      case Op::kWait:
        ++sum.flags;
        break;
      case Op::kBarrier:
        ++sum.barriers;
        break;
      case Op::kFill:
      case Op::kScalar:
        break;
    }
  }
  return sum;
}

}  // namespace npu_lp::twin
