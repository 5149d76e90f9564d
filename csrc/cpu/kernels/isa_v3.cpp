// x86-64-v3: AVX2 and FMA. 16 registers hold 4 x 3 accumulators.
#define NPU_LP_ISA v3
#define NPU_LP_ISA_NAME "v3"
#define NPU_LP_GEMM_ROWS 4
#define NPU_LP_GEMM_VECTORS 3
#define NPU_LP_GEMM_TILE_M 384
#define NPU_LP_GEMM_TILE_N 288
#include "cpu/kernels/isa.inc"
