# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Callbacks: stop on a signal or NaN, tell how far a run is, take the time; trackers; detect chance-level results."""

import contextlib
import importlib.util
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from accelerate.utils import patch_environment
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from hf_longseq.errors import HfLongSeqError
from hf_longseq.training.checkpoints import newest_intact

# The packages that serve a tracker; the first is the one to install.
PACKAGES = {"tensorboard": ("tensorboard", "tensorboardX"), "trackio": ("trackio",), "wandb": ("wandb",)}
PROJECT = "hf-longseq"


class Diverged(HfLongSeqError):
    """The loss or gradient of a run became NaN or infinite at `step`; a rerun does the same."""

    def __init__(self, message: str, step: int | None = None):
        super().__init__(message)
        self.step = step


class StopOnNaN(TrainerCallback):
    """Stops a run whose loss or gradient is NaN or infinite, before its weights are saved."""

    def __init__(self, section: str):
        self.section = section

    def on_step_end(self, args, state, control, **kwargs):
        # A step logs before it evaluates and saves, and on_log checks.
        if control.should_save:
            control.should_log = True

    def on_log(self, args, state, control, logs=None, **kwargs):
        for name, what in (("loss", "training loss"), ("grad_norm", "norm of the gradient")):
            self._check((logs or {}).get(name), what, args, state)

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        self._check((metrics or {}).get("eval_loss"), "validation loss", args, state)

    def _check(self, value: float | None, what: str, args, state) -> None:
        if value is None or math.isfinite(value):
            return
        message = (
            f"the {what} is {value} at step {state.global_step}: lower {self.section}.learning_rate "
            f"(now {args.learning_rate}) or set {self.section}.max_grad_norm (now {args.max_grad_norm})"
        )
        kept = newest_intact(Path(args.output_dir))
        if kept is not None:
            message += f" in another output_dir; the weights of {kept.name}, before that, are kept in {kept}"
        raise Diverged(f"{message}.", state.global_step)


class StopOnSignal(TrainerCallback):
    """Ends a run on Ctrl-C, or on SIGTERM as batch systems send it, with a checkpoint of the step under way.

    A context manager around training that restores the handlers. After the checkpoint the signal has its usual
    effect; a second one acts at once. Several processes save the same step. `tell` gets the step and a line of text at
    the end of the step, and after the checkpoint.
    """

    def __init__(self, tell: Callable[[int, str], None]):
        self.tell = tell
        self._received = 0  # by this process
        self._agreed = 0  # by any process, known to all
        self._previous: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                if handler not in (signal.SIG_IGN, None):  # workers of a comparison leave Ctrl-C to their parent
                    self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind, *exc_info):
        self._restore()
        if self._received and kind is None:  # it came after the last step
            signal.raise_signal(self._received)

    def _restore(self) -> None:
        while self._previous:
            signal.signal(*self._previous.popitem())

    def _note(self, number: int, frame) -> None:
        # Only this: `tell` may hold a lock just now and would wait for itself.
        if self._received:
            self._obey(number)
        self._received = number

    def _obey(self, number: int) -> None:
        self._restore()
        signal.raise_signal(number)

    def on_step_end(self, args, state, control, **kwargs):
        self._agreed = self._received
        if args.world_size > 1:
            told = torch.tensor(self._received, device=args.device)
            torch.distributed.all_reduce(told, torch.distributed.ReduceOp.MAX)
            self._agreed = int(told)
        if self._agreed:
            name = signal.Signals(self._agreed).name
            self.tell(state.global_step, f"{name}: stopping with a checkpoint of this step (again: at once)")
            control.should_save = True

    def on_save(self, args, state, control, **kwargs):
        if self._agreed:
            step, last = state.global_step, state.max_steps
            self.tell(step, f"stopped at step {step}/{last}, saved in {args.output_dir}; rerun the command to resume")
            self._obey(self._agreed)


class DropoutOfItsOwn(TrainerCallback):
    """Gives every process but the first its own random numbers for dropout when training begins.

    Weights are drawn before; order and masks have seeds of their own. A resumed run restores each process's stream.
    """

    def on_train_begin(self, args, state, control, **kwargs):
        if args.process_index > 0:
            torch.manual_seed(args.seed + 1_000_003 * args.process_index)


class WallClock(TrainerCallback, ExportableState):
    """Seconds spent in training, evaluations included, added up over resumes (kept in each checkpoint)."""

    def __init__(self, seconds: float = 0.0):
        self.seconds = seconds
        self._started: float | None = None

    def on_train_begin(self, args, state, control, **kwargs):
        self._started = time.monotonic() - self.seconds

    def on_train_end(self, args, state, control, **kwargs):
        self.seconds = time.monotonic() - self._started
        self._started = None

    def state(self) -> dict:
        now = self.seconds if self._started is None else time.monotonic() - self._started
        return {"args": {"seconds": now}, "attributes": {}}


class ProgressReport(TrainerCallback):
    """Tells how far a run is: `tell(step, text)` after each step and evaluation.

    `text` is a line for an evaluation, with the loss and `metric`, else None.
    """

    def __init__(self, tell: Callable[[int, "str | None"], None], metric: str):
        self.tell = tell
        self.metric = metric

    def on_train_begin(self, args, state, control, model=None, optimizer=None, train_dataloader=None, **kwargs):
        micro, accumulation = args.per_device_train_batch_size, args.gradient_accumulation_steps
        size = (
            f"{model.num_parameters():,} parameters, {state.max_steps} steps of "
            f"{micro * accumulation * args.world_size} of {len(train_dataloader.dataset):,} examples "
            f"(micro batch {micro} x accumulation {accumulation} x processes {args.world_size})"
        )
        self.tell(state.global_step, size)

    def on_step_end(self, args, state, control, **kwargs):
        self.tell(state.global_step, None)

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        names = dict.fromkeys(["eval_loss", f"eval_{self.metric}"])
        shown = [f"{name.removeprefix('eval_')} {metrics[name]:.4f}" for name in names if name in (metrics or {})]
        if shown:
            self.tell(state.global_step, f"step {state.global_step}/{state.max_steps}: validation {', '.join(shown)}")


@contextlib.contextmanager
def tracker(names: Iterable[str], section: str, folder: str | os.PathLike) -> Iterator[None]:
    """Let the Trainer's tracker write below a run folder, and close its run afterwards."""
    name = next(iter(names), None)
    if name is None:
        yield
        return
    packages = PACKAGES[name]
    if not any(importlib.util.find_spec(package) for package in packages):
        raise HfLongSeqError(
            f"{section}.report_to is {name!r}, but its package is not installed: pip install {packages[0]}, or use "
            "--report_to none."
        )
    folder = Path(folder).resolve()
    places = {
        "TENSORBOARD_LOGGING_DIR": str(folder / "tensorboard"),
        "TRACKIO_DIR": str(folder / "trackio"),
        "WANDB_DIR": str(folder),
        "WANDB_PROJECT": os.environ.get("WANDB_PROJECT", PROJECT),
    }
    try:
        with patch_environment(**places):
            yield
    finally:
        # The Trainer leaves a run of wandb open, and the next run would join it.
        if "wandb" in sys.modules and sys.modules["wandb"].run is not None:
            sys.modules["wandb"].finish()


def at_chance(accuracy: float, chance: float, examples: int) -> bool:
    """Whether an accuracy on so many examples is less than two standard errors above chance."""
    return accuracy < chance + 2 * math.sqrt(chance * (1 - chance) / examples) or accuracy <= chance
