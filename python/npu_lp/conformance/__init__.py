"""Replays recorded calls of torch_npu's ops on npu_lp's ops and compares the bytes.

`python -m npu_lp.conformance FILE` reads a JSON file of cases (op name, arguments and inputs of torch_npu, expected
outputs as raw bytes, and on what each expectation rests), calls the npu_lp op that computes the same, and prints each
failure, a table by basis, and `N passed, M failed, K not implemented`.

| module     | subject                                                              |
|------------|----------------------------------------------------------------------|
| cases      | the file format: parsing, tensors from bytes, inputs given in words   |
| arguments  | torch_npu's type codes and argument values -> npu_lp's                |
| quantize   | the quantizing ops and the casts                                      |
| multiply   | the matmuls                                                           |
| properties | cases that state a rule instead of bytes                              |
| replay     | one case -> passed, failed or not implemented                         |
| report     | what is printed                                                       |
"""

from npu_lp.conformance.cases import Case, CaseError, load
from npu_lp.conformance.replay import Outcome, Result, replay

__all__ = ["Case", "CaseError", "Outcome", "Result", "load", "replay"]
