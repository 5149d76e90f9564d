// Starts the matmul kernels. Addresses are of GM; `stream` is what launcher.h says. Each does nothing if the tiling has
// nothing to compute (blocks = 0).
#pragma once

#include "ascend/tiling/matmul_tiling_data.h"
#include "formats/formats.h"

namespace npu_lp::ascend {

using Stream = void*;

// out = A B + bias for each batch. Formats are those the tiling was made for; bias may be null.
void launch_mx_matmul(Stream stream, const MatmulTiling& tiling, Format a_format, Format b_format, const void* a,
                      const void* b, const void* a_scale, const void* b_scale, const void* bias, void* out);

// offsets: int64 ends of the groups.
void launch_mx_grouped_matmul(Stream stream, const MatmulTiling& tiling, Format a_format, Format b_format,
                              const void* a, const void* b, const void* a_scale, const void* b_scale,
                              const void* offsets, void* out);

// Scales: fp32, one each (grouped: one, or one a group); read only if the tiling has scale_out.
void launch_hif8_matmul(Stream stream, const MatmulTiling& tiling, const void* a, const void* b, const void* a_scale,
                        const void* b_scale, void* out);

void launch_hif8_grouped_matmul(Stream stream, const MatmulTiling& tiling, const void* a, const void* b,
                                const void* a_scale, const void* b_scale, const void* offsets, void* out);

}  // namespace npu_lp::ascend
