"""Prints a digest of what each op computes on fixed inputs: `python tests/digest.py`.

Run under another NPU_LP_CPU (or on another machine) it must print the same. test_processors.py does so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import numpy as np
import torch
from checks import FLOATS, below, from_bits, ops, random_codes, random_scales, spread
from reference import bits

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def quantizers() -> Iterator[tuple[str, tuple[torch.Tensor, ...]]]:
    maxima = {
        torch.bfloat16: from_bits(below(np.arange(65536), np.random.default_rng(1), 16, 16), torch.bfloat16),
        torch.float16: from_bits(below(np.arange(65536), np.random.default_rng(2), 16, 16), torch.float16),
        torch.float32: spread((3000, 210), torch.float32, 3),
    }
    rules = [("e4m3", "rceil"), ("e4m3", "floor"), ("e5m2", "rceil"), ("e5m2", "floor"), ("e2m1", "floor"),
             ("e2m1", "dtype_range"), ("e1m2", "floor")]  # fmt: skip
    for dtype, x in maxima.items():
        for fmt, rule in rules:
            for axis in (-1, -2):
                yield f"mx_quant {dtype} {fmt} {rule} {axis}", ops.mx_quant(x, axis, fmt, rule)
            yield f"mx_quant_dual {dtype} {fmt} {rule}", ops.mx_quant_dual(x[:2001], fmt, rule)
        offs = torch.tensor([70, 70, 1999, 2900])
        yield f"mx_quant_grouped {dtype}", ops.mx_quant_grouped(x, offs)
        yield f"mx_quant_block {dtype}", ops.mx_quant_block(x, "e4m3", "floor")
        yield f"hif8_quant {dtype}", ops.hif8_quant(x, 15.0, "token")
        yield f"block_quant {dtype}", ops.block_quant(x[:, :16].nan_to_num(0.0, 1.0, 1.0), 1, 128)
        yield f"mx_fake_quant {dtype}", (ops.mx_fake_quant(x, -2, "e4m3", "rceil"),)
        yield f"stochastic {dtype}", ops.mx_quant(x, rounding="stochastic", generator=torch.Generator().manual_seed(1))


def dequantizers() -> Iterator[tuple[str, tuple[torch.Tensor, ...]]]:
    codes = np.repeat(np.arange(256)[:, None], 256, axis=1)
    scale = from_bits(np.zeros((4, 256, 2), dtype=np.int64) + np.arange(256)[None, :, None], torch.float8_e8m0fnu)
    for dtype in (E4M3, E5M2):
        for out_dtype in FLOATS:
            back = ops.mx_dequant(from_bits(codes, dtype), scale, 0, None, out_dtype)
            yield f"mx_dequant {dtype} {out_dtype}", (back,)
    all_codes = torch.arange(256, dtype=torch.uint8).repeat(300, 1)
    for out_dtype in FLOATS:
        back = ops.hif8_dequant(all_codes, torch.linspace(0.5, 2.0, 300), "token", out_dtype)
        yield f"hif8_dequant {out_dtype}", (back,)
    rows = random_scales((3 * 70, 2, 2), 1, 100, 140)
    *block, inexact = ops.mx_to_block(all_codes[: 3 * 70, :64].contiguous(), rows)
    yield "mx_to_block", (*block, inexact.reshape(1))


def multipliers() -> Iterator[tuple[str, tuple[torch.Tensor, ...]]]:
    torch.manual_seed(0)
    for m, k, n in ((1, 700, 33), (65, 300, 70), (7, 40, 1), (130, 1030, 17)):
        pairs = -(-k // 64)
        x1, x2 = random_codes((m, k), E4M3, 1), random_codes((k, n), E5M2, 2)
        s1, s2 = random_scales((m, pairs, 2), 3), random_scales((pairs, n, 2), 4)
        for out_dtype in FLOATS:
            yield f"mx_quant_matmul {m} {k} {n} {out_dtype}", (ops.mx_quant_matmul(x1, x2, s1, s2, out_dtype=out_dtype),)
        x = spread((m, k), torch.bfloat16, 7, specials=False)
        yield f"mx_linear {m} {k} {n}", (ops.mx_linear(x, x2, s2),)
        yield f"mx_linear_dual {m} {k} {n}", ops.mx_linear_dual(x, x2, s2)
        one = torch.ones(1)
        h1, h2 = ops.hif8_quant(spread((m, k), torch.bfloat16, 5, specials=False))[0], ops.hif8_quant(
            spread((k, n), torch.bfloat16, 6, specials=False)
        )[0]  # fmt: skip
        total = torch.ones(m, n)
        ops.mx_quant_matmul_add_(total, x1, x2, s1, s2)
        yield f"mx_quant_matmul_add_ {m} {k} {n}", (total,)
        blocks1, blocks2 = torch.rand(m, -(-k // 128)), torch.rand(-(-k // 128), -(-n // 128))
        yield f"block_quant_matmul {m} {k} {n}", (ops.block_quant_matmul(x1, x2, blocks1, blocks2),)
        yield f"hif8_quant_matmul {m} {k} {n}", (ops.hif8_quant_matmul(h1, h2, one, one, out_dtype=torch.float32),)
    offs = torch.tensor([70, 70, 250])
    x, s = random_codes((300, 40), E4M3, 7), random_scales((300 // 64 + 3, 40, 2), 8)
    yield "mx_grouped_matmul k", (ops.mx_grouped_matmul(x.t(), x, s, s, offs, "k", torch.float32),)
    h = ops.hif8_quant(spread((300, 40), torch.bfloat16, 12, specials=False))[0]
    for split, left, right in (("k", h.t(), h), ("m", h, h[:120].reshape(3, 40, 40))):
        product = ops.hif8_grouped_matmul(left, right, one, one, offs, split, torch.float32)
        yield f"hif8_grouped_matmul {split}", (product,)
    w, ws = random_codes((3, 40, 50), E4M3, 9), random_scales((3, 1, 50, 2), 10)
    xs = random_scales((300, 1, 2), 11)
    yield "mx_grouped_matmul m", (ops.mx_grouped_matmul(x, w, xs, ws, offs, "m", torch.float32),)


def digest() -> dict[str, str]:
    """SHA-256 of the bits of each call's results."""
    found = {}
    for calls in (quantizers(), dequantizers(), multipliers()):
        for name, results in calls:
            h = hashlib.sha256()
            for result in results:
                h.update(np.ascontiguousarray(bits.storage_bits(result)).tobytes())
            found[name] = h.hexdigest()
    return found


if __name__ == "__main__":
    print(json.dumps(digest()))
