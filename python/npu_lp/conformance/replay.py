"""One case -> passed, failed or not implemented."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

import torch

from npu_lp.conformance import multiply, properties, quantize
from npu_lp.conformance.arguments import NotAvailable
from npu_lp.conformance.cases import Case, CaseError
from npu_lp.conformance.comparison import Comparison

_OPS: dict[str, Callable[[Case, torch.device], Iterator[Comparison]]] = {
    "npu_dynamic_mx_quant": quantize.dynamic_mx_quant,
    "npu_dynamic_mx_quant_with_dual_axis": quantize.dynamic_mx_quant_with_dual_axis,
    "npu_grouped_dynamic_mx_quant": quantize.grouped_dynamic_mx_quant,
    "npu_dynamic_block_mx_quant": quantize.dynamic_block_mx_quant,
    "cann_ops_nn.mx_to_block_mx_quant": quantize.mx_to_block_mx_quant,
    "npu_dynamic_quant": quantize.dynamic_quant,
    "npu_dynamic_block_quant": quantize.dynamic_block_quant,
    "npu_anti_mx_quant": quantize.anti_mx_quant,
    "npu_quant_matmul": multiply.quant_matmul,
    "npu_grouped_matmul": multiply.grouped_matmul,
    "hif8 decode": quantize.hif8_decode,
    "fp32->hif8 CAST_ROUND": quantize.hif8_cast,
    "property": properties.check_property,
}


class Outcome(Enum):
    """What became of a case."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_IMPLEMENTED = "not implemented"


@dataclass(frozen=True)
class Result:
    """A case's outcome; `details` has one line per wrong output, or why there is no counterpart."""

    case: Case
    outcome: Outcome
    details: list[str]


def replay(case: Case, device: torch.device) -> Result:
    """Runs one case. A CaseError (the case itself is malformed) is the caller's to report.

    An op that refuses a call which the device accepts has failed the case, so errors that ops raise about their
    arguments count as failures. What is not implemented is known beforehand, or said by NotImplementedError.
    """
    run = _OPS.get(case.op)
    if run is None:
        return Result(case, Outcome.NOT_IMPLEMENTED, [f"npu_lp has no counterpart of the op {case.op}"])
    try:
        wrong = [f"{c.output}: {c.mismatch}" for c in run(case, device) if c.mismatch is not None]
    except NotAvailable as reason:
        return Result(case, Outcome.NOT_IMPLEMENTED, [str(reason)])
    except NotImplementedError as reason:  # a backend without a kernel for it
        return Result(case, Outcome.NOT_IMPLEMENTED, [str(reason).strip().splitlines()[0]])
    except CaseError:
        raise
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        return Result(case, Outcome.FAILED, [f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"])
    return Result(case, Outcome.FAILED if wrong else Outcome.PASSED, wrong)
