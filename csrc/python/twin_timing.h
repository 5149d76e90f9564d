// The timing model for Python: simulate, the cost table, and launches of matmuls without tensors.
#pragma once

#include "python/twin_module.h"

namespace npu_lp {

// Adds to npu_lp._twin. LaunchRecord must be bound before.
void add_timing(py::module_& m);

}  // namespace npu_lp
