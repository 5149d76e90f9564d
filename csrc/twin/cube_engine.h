// What the cube-side calls of cube.h do. The templates there turn tensors into regions of bytes and types into tags;
// all checking and computing is behind the functions here, compiled once.
#pragma once

#include <cstdint>

#include "twin/cube_params.h"
#include "twin/machine.h"

namespace npu_lp::twin::cube {

// The bytes of a tensor; in GM host addresses, with no end if the kernel gave no size.
struct Region {
  Space space;
  uint64_t begin;
  uint64_t end;
};

enum class Elem : uint8_t { kE4M3, kE5M2, kE2M1, kE1M2, kHiF8, kHalf, kBFloat16, kFloat, kByte };

constexpr int bits_of(Elem elem) {
  switch (elem) {
    case Elem::kE2M1:
    case Elem::kE1M2:
      return 4;
    case Elem::kHalf:
    case Elem::kBFloat16:
      return 16;
    case Elem::kFloat:
      return 32;
    default:
      return 8;
  }
}

// Nd2NzParams and Dn2NzParams alike.
struct NzCopy {
  const char* api;
  bool transposed;  // Dn2Nz
  uint32_t matrices, rows, columns;
  uint64_t src_matrix_stride, src_pitch;  // elements
  uint32_t c0_stride, row_stride;         // 32 bytes
  uint32_t matrix_stride;                 // elements
};

// `element` is the size that the copy counts in: fp4 is copied as bytes.
void copy_to_nz(Region dst, Region src, uint32_t element, const NzCopy& copy, Loc loc);

void fill(Region dst, uint32_t repeat, uint32_t blocks, uint32_t gap, uint32_t value, uint32_t element, Loc loc);

// L1 -> bias table: `blocks` of 32 source bytes. half becomes float when the destination is float.
void load_bias(Region dst, Elem dst_elem, Region src, Elem src_elem, uint32_t count, uint32_t blocks, uint32_t src_gap,
               uint32_t dst_gap, Loc loc);

// L1 -> L0A or L0B. `scale` may be null; then `mx` is not read.
void load(Region dst, Region src, const Region* scale, int element_bits, const AscendC::LoadData2DParamsV2& data,
          const AscendC::LoadData2DMxParams& mx, Loc loc);

// `bias` may be null.
void mmad(Region c, Region a, Elem a_elem, Region b, Elem b_elem, const Region* bias, bool mx,
          const AscendC::MmadParams& params, Loc loc);

// FixpipeParamsArch3510 of every layout.
struct FixpipeArgs {
  AscendC::CO2Layout layout;
  uint32_t n, m, src_stride;
  uint64_t dst_stride;
  QuantMode_t quant;
  uint64_t scale;
  uint8_t unit_flag;
  uint32_t matrices, row_stride;  // of the layout's own parameters; row_stride is 1 but for COLUMN_MAJOR
  bool plain;                     // no ReLU, no channel split, one destination
};
void fixpipe(Region dst, Elem dst_elem, Region src, const FixpipeArgs& args, Loc loc);

}  // namespace npu_lp::twin::cube
