// x86-64-v4: AVX-512, with VBMI. 32 registers hold 8 x 3 accumulators.
#define NPU_LP_ISA v4
#define NPU_LP_ISA_NAME "v4"
#define NPU_LP_GEMM_ROWS 8
#define NPU_LP_GEMM_VECTORS 3
#define NPU_LP_GEMM_TILE_M 384
#define NPU_LP_GEMM_TILE_N 288
#include "cpu/kernels/isa.inc"
