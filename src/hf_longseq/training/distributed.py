# Copyright 2026 The hf-longseq authors.
# SPDX-License-Identifier: Apache-2.0
"""Several processes that train one model: what each does, what one does for all, and which rank reports errors.

A launcher (`hf-longseq ... --num_processes`, `accelerate launch`, `torchrun`) starts the same command in every process
and says through the environment which of them it is. The main process alone writes into the run's folder, shows the
progress and decides whether the run is new; the others wait for its answer. With one process all of this does nothing.
"""

import itertools
import os
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from hf_longseq.errors import HfLongSeqError

Result = TypeVar("Result")

# Generating a large task takes the main process hours, in which the others have nothing to do but wait.
LONGEST_WAIT = timedelta(days=3)
# Every process comes to the same meetings in the same order: that gives each of them a number.
_meetings = itertools.count()


def count() -> int:
    return int(os.environ.get("WORLD_SIZE", 1))


def is_main() -> bool:
    return os.environ.get("RANK", "0") == "0"


def join() -> None:
    """Meet the other processes, if a launcher started several; later calls do nothing."""
    if os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true" and not torch.accelerator.is_available():
        raise HfLongSeqError(
            "the launch configuration asks for FSDP, but accelerate shards on accelerators only and there is none: "
            "use ddp here."
        )
    if count() > 1 and not dist.is_initialized():
        from accelerate import PartialState

        PartialState(cpu=not torch.accelerator.is_available())


def leave() -> None:
    """End the group that was joined: its threads must not outlive the interpreter, which may abort at their end."""
    if dist.is_initialized():
        dist.destroy_process_group()


def wait() -> None:
    """Wait until every process has come here."""
    if count() > 1:
        # On the store, where waiting has a limit of its own: a collective call that waits would be taken for a hang.
        meeting, store = f"hf_longseq: meeting {next(_meetings)}", dist.distributed_c10d._get_default_store()
        if store.add(meeting, 1) == count():
            store.set(f"{meeting} is over", "")
        store.wait([f"{meeting} is over"], LONGEST_WAIT)


def main_first(function: Callable[[], Result]) -> Result:
    """Call `function` in every process: first in the main one, then in one per machine, then in the others.

    What it loads or generates is so written once per machine, and found by the rest.
    """
    own_turn = 0 if is_main() else 1 if os.environ.get("LOCAL_RANK", "0") == "0" else 2
    for turn in range(3):
        if turn == own_turn:
            result = function()
        wait()
    return result


def by_main(function: Callable[[], Result]) -> Result:
    """Call `function` in the main process alone and give its result to all; an error there ends the whole run."""
    answer: list[Any] = [function() if is_main() else None]
    wait()
    if count() > 1:
        dist.broadcast_object_list(answer, src=0)
    return answer[0]


def check_enough(examples: int) -> None:
    """Raise if some process would never have an example to learn from."""
    if count() > examples:
        raise HfLongSeqError(
            f"{count()} processes are more than the {examples} training examples: start at most {examples}, or use "
            "more of the data."
        )


def check_same(what: str, value: Any, remedy: str) -> None:
    """Raise if a process has another `value` than the main one."""
    if count() == 1:
        return
    values: list[Any] = [None] * count()
    dist.all_gather_object(values, (value, socket.gethostname()))
    for number, (other, host) in enumerate(values):
        if other != values[0][0]:
            raise HfLongSeqError(f"{what} of process {number} on {host} differ from those of process 0: {remedy}")


def reports_errors() -> bool:
    """Whether this process is the first that failed: it alone says why, for the others fail because of it."""
    if count() == 1:
        return True
    if not dist.is_initialized():
        return is_main()
    try:
        return dist.distributed_c10d._get_default_store().add("hf_longseq: failures", 1) == 1
    except RuntimeError:  # the launcher keeps the count, and is gone
        return False
