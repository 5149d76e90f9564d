// Deals the output tiles of a list of matmuls to torch's threads.
#pragma once

#include <vector>

#include "cpu/kernels/kernels.h"

namespace npu_lp::cpu {

void run_gemms(const std::vector<Gemm>& gemms);

}  // namespace npu_lp::cpu
