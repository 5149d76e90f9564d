"""torchtitan's Trainer, stopped gracefully by Ctrl-C, with a validation and a summary at the end."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any

import torch
import torch.distributed as dist
import torchtitan.trainer
from torchtitan.components.metrics import MetricsProcessor
from torchtitan.tools.logging import logger

from npu_lp.titan import precision_record
from npu_lp.titan.metrics import Metrics


class StopRequest:
    """Turns SIGINT (Ctrl-C) and SIGTERM into a request to stop after the current step, while it is entered.

    A second signal, at least a second later, ends the program at once. (torchrun passes a Ctrl-C on that its processes
    have got from the terminal already: that one must not count as the second.)
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        """The signal received, or None."""
        self._time = 0.0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopRequest:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal is None:
            self.signal, self._time = number, time.monotonic()
            logger.warning(f"{signal.Signals(number).name}: stopping after this step; once more to stop at once")
        elif time.monotonic() - self._time > 1:
            raise KeyboardInterrupt

    def agreed(self, device: torch.device) -> bool:
        """Whether any rank was asked to stop: all ranks get the same answer, so that none waits for another."""
        if not dist.is_initialized() or dist.get_world_size() == 1:
            return self.signal is not None
        flag = torch.tensor([self.signal or 0], dtype=torch.int32, device=device)
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
        if flag.item() and self.signal is None:
            self.signal = int(flag.item())
        return self.signal is not None


class Trainer(torchtitan.trainer.Trainer):
    """torchtitan's trainer; see the module docstring."""

    @dataclass(kw_only=True, slots=True)
    class Config(torchtitan.trainer.Trainer.Config):
        """torchtitan's fields, with npu_lp's metrics."""

        metrics: MetricsProcessor.Config = field(default_factory=Metrics.Config)

    metrics_processor: Metrics

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.stop = StopRequest()
        self._first_step: int | None = None

    @property
    def stopped_by(self) -> int | None:
        """The signal that ended training early, or None."""
        return self.stop.signal

    def should_continue_training(self) -> bool:
        """torchtitan asks this before each step: the moment at which everything of the last step is in place."""
        if self._first_step is None:
            self._first_step = self.step + 1
            self.metrics_processor.start(self._first_step, self.config.training.steps)
        if not super().should_continue_training():
            return False
        if self.stop.agreed(self.device):
            self._save_before_stopping()
            return False
        return True

    def _save_before_stopping(self) -> None:
        """Saves a checkpoint to resume from, unless the step just finished has one."""
        checkpointer = self.checkpointer
        assert self._first_step is not None
        if not checkpointer.enable or self.step < self._first_step or self.step % self.config.checkpoint.interval == 0:
            return
        # "Last step" saves whatever the interval is, but by default the model alone: enough to use, not to resume.
        checkpointer.last_save_model_only = False
        checkpointer.last_save_in_hf = False
        checkpointer.save(self.step, last_step=True)

    def state_dict(self) -> dict[str, Any]:
        """torchtitan's, and which modules are low-precision and how."""
        return {**super().state_dict(), "low_precision": precision_record.record(self.model_parts)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """torchtitan's; says so where the checkpoint was trained in other precisions than this model."""
        super().load_state_dict(state_dict)
        difference = precision_record.difference(state_dict["low_precision"], precision_record.record(self.model_parts))
        if difference is not None:
            logger.warning(difference)

    def train(self) -> None:
        """Trains, validates after the last step, and reports."""
        with self.stop:
            super().train()
        stopped = self.stopped_by is not None and self.step < self.config.training.steps
        validator = self.config.validator
        if validator.enable and not stopped and not self.validator.should_validate(self.step):
            self.validator.validate(self.model_parts, self.step)
        self.metrics_processor.finish(interrupted_at=self.step if stopped else None)
