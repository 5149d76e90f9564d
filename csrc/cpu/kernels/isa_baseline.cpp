// Whatever the compiler targets by default: NEON on AArch64, plain C++ elsewhere.
#define NPU_LP_ISA baseline
#if defined(__aarch64__)
#define NPU_LP_ISA_NAME "neon"
#else
#define NPU_LP_ISA_NAME "scalar"
#endif
#define NPU_LP_GEMM_ROWS 4
#define NPU_LP_GEMM_VECTORS 4
#define NPU_LP_GEMM_TILE_M 384
#define NPU_LP_GEMM_TILE_N 256
#include "cpu/kernels/isa.inc"
