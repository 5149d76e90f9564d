"""An independent model of what the ops compute, written from the specification for tests only.

Nothing here shares code with the library: values are held exactly (float64 holds every bf16, fp16, fp32 number and
every product with a power of two that occurs), rounding is done on integers, and no torch cast defines anything.
Speed is second to being easy to check against the text of the specification.

| module       | subject                                                             |
|--------------|---------------------------------------------------------------------|
| bits         | torch tensors <-> exact float64 values and storage bits             |
| minifloat    | e4m3, e5m2, e3m2, e2m3, e2m1, e1m2, bf16, fp16: decode and encode   |
| hif8         | HiFloat8 decode and encode                                          |
| scale_rules  | floor, rceil, dtype_range: the e8m0 byte of a block                 |
| mx           | MX quantization along any axis, dual, grouped, 32x32 tiles, dequant |
| fp32_scaled  | HiF8 and block quantization with fp32 scales                        |
| matmul       | the matmuls, in their defined order of accumulation                 |
"""
