// x86-64-v3: AVX2 and FMA. 16 registers hold 6 x 2 accumulators.
#define NPU_LP_ISA v3
#define NPU_LP_ISA_NAME "v3"
#define NPU_LP_GEMM_ROWS 6
#define NPU_LP_GEMM_VECTORS 2
#define NPU_LP_GEMM_TILE_M 192
#define NPU_LP_GEMM_TILE_N 128
#include "cpu/kernels/isa.inc"
