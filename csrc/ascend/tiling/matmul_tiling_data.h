// What the host tells a matmul kernel: plain data, passed by value. matmul_tiling.h fills it in.
#pragma once

#include <cstdint>

namespace npu_lp::ascend {

// Sizes of one AI core's memories, in bytes.
constexpr uint32_t kL1Bytes = 512 * 1024;
constexpr uint32_t kL1HalfBytes =
    kL1Bytes / 2;  // two banks: a buffer being filled and one being read sit in different ones
constexpr uint32_t kL0SlotBytes = 32 * 1024;  // L0A and L0B hold two slots each
constexpr uint32_t kL0MxSlotBytes = kL0SlotBytes / 16;
constexpr uint32_t kL0CBytes = 256 * 1024;
constexpr uint32_t kBiasTableBytes = 4 * 1024;
constexpr uint32_t kBiasSlotBytes = kBiasTableBytes / 2;

constexpr uint32_t kBlockBytes = 32;   // of L1
constexpr uint32_t kFractalRows = 16;  // a fractal of L0 is 16 rows of 32 bytes
constexpr uint32_t kScaledPair = 64;   // elements of K under one pair of scales
constexpr uint32_t kMaxStages = 4;
constexpr uint32_t kScaleSlots = 2;

enum class MatmulSplit : uint32_t { kNone, kM, kK };
enum class MatmulOut : uint32_t { kBFloat16, kFloat16, kFloat32 };

// One operand: a matrix of `rows` x K, where rows are M of A and N of B.
struct MatmulOperandTiling {
  uint64_t pitch;         // elements from one line to the next; a line is a row, or with k_leading one k
  uint64_t batch_stride;  // elements from one batch to the next (split m: from one group's B to the next)
  uint64_t scale_pitch;   // the same two for the scales, counted in pairs
  uint64_t scale_batch_stride;
  uint32_t k_leading;        // memory is [K][rows]
  uint32_t scale_k_leading;  // scales are [K/64][rows][2]
  uint32_t base;             // rows of a tile
  uint32_t align;            // what a tile's rows are rounded up to in L0: a fractal, or a square that is transposed
  uint32_t l1[kMaxStages];   // byte addresses of the chunks
  uint32_t scale_l1[kScaleSlots];
};

struct MatmulTiling {
  MatmulOperandTiling a;
  MatmulOperandTiling b;
  uint64_t m, n, k;           // split m: m is all tokens; split k: k is
  uint64_t batches;           // 1 for grouped matmuls
  uint64_t out_pitch;         // elements
  uint64_t out_batch_stride;  // elements; split k: from one group's product to the next
  uint32_t base_k;            // elements of K of one Mmad
  uint32_t step_k;            // Mmads of one chunk of L1, at most
  uint32_t scale_factor;      // chunks under one load of scales, at most
  uint32_t stages;            // chunks that L1 holds
  uint32_t l0c_slots;         // tiles that L0C holds
  uint32_t bias_l1[kScaleSlots];
  uint32_t window;  // tiles along M that are walked together along N
  uint32_t blocks;  // cores
  uint32_t groups;
  MatmulSplit split;
  MatmulOut out;
  uint32_t has_bias;
  uint32_t accumulate;    // out is fp32 and is added to
  uint32_t scale_out;     // HiF8: Fixpipe multiplies by the product of the two scales
  uint32_t a_scale_step;  // HiF8: 1 if each group has its own scale, 0 if all share one
  uint32_t b_scale_step;
};

}  // namespace npu_lp::ascend
