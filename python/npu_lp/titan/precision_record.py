"""The record, in a checkpoint, of which modules were low-precision and how.

Weights are saved in high precision with ordinary keys, so any recipe loads any checkpoint. The record says what they were
trained with; a difference is reported, never an error.
"""

import json
from collections.abc import Iterable

from torch import nn


def record(models: Iterable[nn.Module]) -> str:
    """Return the configs of the low-precision modules by name, as JSON: ``{"layers.0.attention.wq_a": "MXConfig(...)"}``."""
    configs = {
        name: str(module.low_precision)
        for model in models
        for name, module in model.named_modules()
        if hasattr(module, "low_precision")
    }
    return json.dumps(configs)


def difference(saved: str, present: str) -> str | None:
    """Say in one line how a checkpoint's record differs from the present model's, or return None where it does not."""
    before: dict[str, str] = json.loads(saved)
    now: dict[str, str] = json.loads(present)
    if before == now:
        return None
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    first = changed[0]
    return (
        f"This checkpoint was trained with {_summary(before)}; training goes on with {_summary(now)}. "
        f"{len(changed)} modules differ, such as {first}: {before.get(first, 'high precision')} before, "
        f"{now.get(first, 'high precision')} now. The weights are the same."
    )


def _summary(configs: dict[str, str]) -> str:
    if not configs:
        return "no module in low precision"
    kinds = sorted({config.split("(")[0] for config in configs.values()})
    return f"{len(configs)} modules in low precision ({', '.join(kinds)})"
