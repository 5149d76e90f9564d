// Starts the vector kernels. All pointers are device memory (of the twin: host memory that its TwinLaunch lists);
// tensors are contiguous. A tiling of an empty tensor (blocks 0) starts nothing.
#pragma once

#include "ascend/tiling/hif8_tiling.h"
#include "ascend/tiling/quant_tiling.h"

namespace npu_lp::ascend {

using Stream = void*;

// Blocks along the last axis: data like x, scale [rows, ceil(cols/64), 2].
void launch_mx_quant_last(Stream stream, const QuantSpec& spec, const RowTiling& tiling, const void* x, void* data,
                          void* scale);
// Any other axis, x as [slices, depth, inner]: scale [slices, ceil(depth/64), inner, 2].
void launch_mx_quant_axis2(Stream stream, const QuantSpec& spec, const ColumnTiling& tiling, const void* x, void* data,
                           void* scale);
// `spec` is that of the rows; the columns' differs in amax_truncates, which is false.
void launch_mx_quant_dual(Stream stream, const QuantSpec& spec, const ColumnTiling& tiling, const void* x,
                          void* data_row, void* scale_row, void* data_col, void* scale_col);
// `ends`: int64, where each group ends. Every byte of data and scale is written.
void launch_mx_quant_grouped(Stream stream, const QuantSpec& spec, const ColumnTiling& tiling, const void* x,
                             const void* ends, void* data, void* scale);
void launch_mx_quant_block(Stream stream, const QuantSpec& spec, const ColumnTiling& tiling, const void* x, void* data,
                           void* scale_row, void* scale_col);
// `changed`: 64 counts of 32 bits for each core, whose sum is that of the elements with another value than before.
void launch_mx_to_block(Stream stream, const ToBlockTiling& tiling, const ToBlockTable& table, bool nan_as_number,
                        const void* data, const void* scale, void* out, void* scale_row, void* scale_col,
                        void* changed);
void launch_mx_dequant_last(Stream stream, Format format, FloatType out_type, const RowTiling& tiling, const void* data,
                            const void* scale, void* out);
void launch_mx_dequant_axis2(Stream stream, Format format, FloatType out_type, const ColumnTiling& tiling,
                             const void* data, const void* scale, void* out);
// Two launches where `partials` (hif8_partials() values of fp32) is needed, else one.
void launch_hif8_quant(Stream stream, FloatType input, const Hif8Tiling& tiling, const void* x, void* partials,
                       void* data, void* scale);
// row_scale may be null without a row scale, bias without a bias.
void launch_scale_epilogue(Stream stream, FloatType out_type, const EpilogueTiling& tiling, const void* acc,
                           const void* row_scale, const void* column_scale, const void* bias, void* out);

}  // namespace npu_lp::ascend
