"""The number of threads changes no bit of what any op computes."""

from __future__ import annotations

import pytest
import torch
from digest import digest


def cpu_ops() -> set[str]:
    """Every op of npu_lp that has a kernel for the CPU."""
    names = torch._C._dispatch_get_registrations_for_dispatch_key("CPU")
    return {name.removeprefix("npu_lp::") for name in names if name.startswith("npu_lp::")} - {"_cpu_kernels"}


@pytest.mark.usefixtures("restore_threads")
def test_every_op_gives_the_same_bits_on_1_2_3_and_7_threads() -> None:
    torch.set_num_threads(1)
    alone = digest()
    covered = {name.split()[0] for name in alone}
    assert cpu_ops() - covered == set(), "add a call of these to tests/digest.py"
    for threads in (2, 3, 7):
        torch.set_num_threads(threads)
        together = digest()
        assert {name for name in alone if alone[name] != together[name]} == set(), threads
