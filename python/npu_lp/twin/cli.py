"""``python -m npu_lp twin profile | costs | skus``."""

import argparse
from typing import Any

import torch

from npu_lp.twin import profile

_MATMULS = ("mx_matmul", "mx_grouped_matmul", "hif8_matmul", "hif8_grouped_matmul")
_QUANT = ("mx_quant", "mx_quant_dual", "mx_quant_grouped", "mx_quant_block", "mx_to_block", "mx_dequant", "hif8_quant")
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


def _pairs(text: str, kind: type) -> dict[str, Any]:
    """``"a=1,b=2"`` as a dictionary."""
    result = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f'npu_lp.twin: "{part}" is not NAME=VALUE. Pass for example base_m=256,base_n=256.')
        result[name.strip()] = kind(value)
    return result


def _offsets(options: argparse.Namespace) -> list[int]:
    if options.offsets:
        return [int(end) for end in options.offsets.split(",")]
    total = options.k if options.split == "k" else options.m
    return [total * (group + 1) // options.groups for group in range(options.groups)]


def _profile(options: argparse.Namespace) -> list[profile.Timing]:
    machine = profile.Machine(
        sku=options.sku,
        cores=options.cores,
        costs=_pairs(options.cost, float),
        trace=options.trace,
        trace_cores=options.trace_cores,
    )
    m, n, k = options.m, options.n, options.k
    if options.kernel in _QUANT:
        return profile.quantize(
            options.kernel,
            m,
            k,
            options.format,
            _DTYPES[options.dtype],
            axis=options.axis,
            scale_rule=options.scale_rule,
            offsets=_offsets(options) if options.kernel == "mx_quant_grouped" else (),
            granularity=options.granularity,
            machine=machine,
        )
    common: dict[str, Any] = {"out": options.out, "tiling": _pairs(options.tiling, int), "machine": machine}
    if options.kernel == "mx_matmul":
        return profile.mx_matmul(
            m,
            n,
            k,
            options.format,
            options.b_format,
            layout=options.layout,
            bias=options.bias,
            accumulate=options.accumulate,
            **common,
        )
    if options.kernel == "hif8_matmul":
        return profile.hif8_matmul(m, n, k, layout=options.layout, **common)
    common |= {"m": m, "split": options.split}
    if options.kernel == "mx_grouped_matmul":
        return profile.mx_grouped_matmul(n, k, _offsets(options), options.format, options.b_format, **common)
    return profile.hif8_grouped_matmul(n, k, _offsets(options), **common)


def _run_profile(options: argparse.Namespace) -> None:
    try:
        timings = _profile(options)
    except (ValueError, NotImplementedError) as error:
        raise SystemExit(f"python -m npu_lp twin profile: {error}") from error
    for timing in timings:
        print(profile.table(timing))
    if len(timings) > 1:
        print(f"{len(timings)} launches: {sum(timing.total_us for timing in timings):.2f} us")
    if options.trace:
        print(f"trace: {options.trace} (open it in https://ui.perfetto.dev)")


def _run_costs(_: argparse.Namespace) -> None:
    for row in profile.costs():
        print(f"{row['name']:22}{row['value']:>10g} {row['unit']:20}{row['range']:>14}  {row['tag']:12} {row['source']}")


def _run_skus(_: argparse.Namespace) -> None:
    for sku in profile.skus():
        print(
            f"{sku['name']:12}{sku['cube_cores']:>3} AIC {sku['vector_cores']:>3} AIV  {sku['clock_ghz']:.2f} GHz  "
            f"HBM {sku['hbm_tb_s']:.2f} TB/s  L2 {sku['l2_mib']} MiB"
        )


def add_commands(commands: Any) -> None:
    """Add ``twin`` to the subparsers of ``python -m npu_lp``."""
    twin = commands.add_parser("twin", help="time kernels in a model of an Ascend 950, with traces")
    actions = twin.add_subparsers(metavar="ACTION", required=True)
    costs = actions.add_parser("costs", help="print every figure of the model with its source")
    costs.set_defaults(run=_run_costs)
    skus = actions.add_parser("skus", help="print the products that --sku takes")
    skus.set_defaults(run=_run_skus)

    parser = actions.add_parser("profile", help="print pipe utilization, bytes moved and what bounds a kernel")
    parser.add_argument("kernel", choices=_MATMULS + _QUANT)
    parser.add_argument("--m", type=int, default=4096, help="rows; of grouped matmuls with split m, tokens")
    parser.add_argument("--n", type=int, default=4096, help="columns of the result of a matmul")
    parser.add_argument("--k", type=int, default=4096, help="length of the sums; of quantization, columns")
    parser.add_argument("--format", default="e4m3", help="e4m3, e5m2, e2m1 or e1m2 (default: e4m3)")
    parser.add_argument("--b-format", help="of B, if not A's")
    parser.add_argument("--layout", default="NT", help="NN, NT, TN or TT (default: NT, a linear layer's forward)")
    parser.add_argument("--out", default="bf16", help="bf16, fp16 or fp32")
    parser.add_argument("--bias", action="store_true")
    parser.add_argument("--accumulate", action="store_true", help="add to the result; takes --out fp32")
    parser.add_argument("--split", default="m", help="of grouped matmuls: m or k")
    parser.add_argument("--groups", type=int, default=8, help="equal groups, unless --offsets")
    parser.add_argument("--offsets", default="", metavar="END,END,...", help="where each group ends")
    parser.add_argument("--dtype", default="bf16", choices=sorted(_DTYPES), help="of the tensor to quantize")
    parser.add_argument("--axis", type=int, default=-1, help="of mx_quant and mx_dequant: -1 or -2")
    parser.add_argument("--scale-rule", help="floor, rceil or dtype_range")
    parser.add_argument("--granularity", default="tensor", help="of hif8_quant: tensor, token or channel")
    parser.add_argument("--tiling", default="", metavar="NAME=VALUE,...", help="base_m, base_n, base_k, step_k, ...")
    parser.add_argument("--sku", default=profile.DEFAULT_SKU, help=f"see `twin skus` (default: {profile.DEFAULT_SKU})")
    parser.add_argument("--cores", type=int, default=0, help="AI cores to use (default: all)")
    parser.add_argument("--cost", default="", metavar="NAME=VALUE,...", help="changes to `twin costs`")
    parser.add_argument("--trace", metavar="FILE", help="write a Chrome/Perfetto trace")
    parser.add_argument("--trace-cores", type=int, default=2, help="cores in the trace (default: 2)")
    parser.set_defaults(run=_run_profile)
