#include "ascend/host/ops.h"
namespace npu_lp::ascend {
std::tuple<Tensor, Tensor> mx_quant(const Tensor&, int64_t, std::string_view, std::string_view, int64_t, std::string_view, std::string_view, double, double, std::optional<at::Generator>) { no_kernel("mx_quant", "this op"); }
std::tuple<Tensor, Tensor, Tensor, Tensor> mx_quant_dual(const Tensor&, std::string_view, std::string_view, std::string_view, std::string_view, double, std::optional<at::Generator>, int64_t) { no_kernel("mx_quant_dual", "this op"); }
std::tuple<Tensor, Tensor> mx_quant_grouped(const Tensor&, const Tensor&, std::string_view, std::string_view, std::string_view, std::string_view, double, std::optional<at::Generator>, int64_t) { no_kernel("mx_quant_grouped", "this op"); }
std::tuple<Tensor, Tensor, Tensor> mx_quant_block(const Tensor&, std::string_view, std::string_view, std::string_view, std::string_view, double) { no_kernel("mx_quant_block", "this op"); }
Tensor mx_dequant(const Tensor&, const Tensor&, int64_t, std::optional<std::string_view>, at::ScalarType, int64_t) { no_kernel("mx_dequant", "this op"); }
std::tuple<Tensor, Tensor> hif8_quant(const Tensor&, double, std::string_view) { no_kernel("hif8_quant", "this op"); }
Tensor mx_quant_matmul(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&, at::ScalarType, std::optional<std::string_view>, std::optional<std::string_view>, int64_t) { no_kernel("mx_quant_matmul", "this op"); }
void mx_quant_matmul_add_(Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, std::optional<std::string_view>, std::optional<std::string_view>, int64_t) { no_kernel("mx_quant_matmul_add_", "this op"); }
Tensor mx_grouped_matmul(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, std::string_view, at::ScalarType, std::optional<std::string_view>, std::optional<std::string_view>, int64_t) { no_kernel("mx_grouped_matmul", "this op"); }
Tensor hif8_quant_matmul(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&, at::ScalarType, std::optional<bool>) { no_kernel("hif8_quant_matmul", "this op"); }
Tensor hif8_grouped_matmul(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, std::string_view, at::ScalarType, std::optional<bool>) { no_kernel("hif8_grouped_matmul", "this op"); }
}
