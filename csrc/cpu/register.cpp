#include "cpu/register.h"

#include <torch/library.h>

#include "cpu/kernels/kernels.h"

namespace npu_lp::cpu {

TORCH_LIBRARY_IMPL(npu_lp, CPU, m) {
  m.impl("mx_quant", mx_quant);
  m.impl("mx_quant_dual", mx_quant_dual);
  m.impl("mx_quant_grouped", mx_quant_grouped);
  m.impl("mx_dequant", mx_dequant);
  m.impl("mx_quant_matmul", mx_quant_matmul);
  m.impl("mx_grouped_matmul", mx_grouped_matmul);
  m.impl("mx_quant_block", mx_quant_block);
  m.impl("mx_to_block", mx_to_block);
  m.impl("hif8_quant", hif8_quant);
  m.impl("hif8_dequant", hif8_dequant);
  m.impl("hif8_quant_matmul", hif8_quant_matmul);
  m.impl("hif8_grouped_matmul", hif8_grouped_matmul);
  m.impl("block_quant", block_quant);
  m.impl("block_quant_matmul", block_quant_matmul);
}

// For the environment report: the kernel table in use, and all that this processor can run.
TORCH_LIBRARY_FRAGMENT(npu_lp, m) {
  m.def("_cpu_kernels() -> (str, str)",
        [] { return std::tuple<std::string, std::string>(kernels().name, available_kernels()); });
}

}  // namespace npu_lp::cpu
