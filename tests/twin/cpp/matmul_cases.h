// A matmul on the twin against a plain reference: data whose sums are exact in fp32, in exactly sized GM buffers.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "ascend/host/twin_launch.h"
#include "ascend/tiling/matmul_tiling.h"

namespace matmul_cases {

using npu_lp::Format;
using npu_lp::ascend::MatmulOut;
using npu_lp::ascend::MatmulProblem;
using npu_lp::ascend::MatmulSplit;
using npu_lp::ascend::MatmulTiling;
using npu_lp::ascend::MatmulTilingChoice;

struct Case {
  MatmulProblem problem;  // strides are filled in by run(); a batch_stride of 0 stays: shared by all batches
  bool a_shared = false, b_shared = false;
  std::vector<int64_t> ends;  // of groups
  MatmulTilingChoice choice;
  int cores = 1;
  npu_lp::twin::Options options;
  bool apart = false;  // lines have gaps between them
};

std::string describe(const Case& c);

// Throws if a report is made, returns the number of wrong elements and describes the first.
int64_t run(Case& c, uint64_t seed, std::string& first_wrong);

Case random_case(std::mt19937_64& random);

}  // namespace matmul_cases
